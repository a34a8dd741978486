package queue

import (
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/queue/state"
	"github.com/pawl-locks/pawl/internal/txn"
)

// A token is the create revision of the acquisition's own key (rule K1). etcd makes it, when it
// applies the put of that key. All ways in which an acquisition learns it are here:
//
//	created     the answer to the put of the key: the enqueue, or the take of a semaphore's slot
//	putAt       a read of the key, after the enqueue's answer was lost (settle.go)
//	TakeFound   the same of a slot's key, after the take's (foundTake, semaphore.go)
//	keyOfToken  the token that another process learned, which a query then compares (resume.go)

// tokenOf is the token of the acquisition whose own key is own; 0: the key is not known to
// exist.
func tokenOf(own state.Key) fencing.Token { return fencing.Token(own.Create) }

// keyOfToken is the queue key, of this name, whose token is t.
func keyOfToken(name string, t fencing.Token) state.Key {
	return state.Key{Name: name, Create: int64(t)}
}

// created is the key of this name as the i-th operation of resp put it; Create is 0 if it put
// none.
func created(name string, resp *pb.TxnResponse, i int) state.Key {
	return state.Key{Name: name, Create: txn.PutRevision(resp, i)}
}

// putAt is the create revision of its own keys, as they were read; 0: none exists. A key that
// somebody deleted and made again has a greater create revision.
func putAt(own txn.Answers) (create int64) {
	for kv := range own.All() {
		if create == 0 || kv.CreateRevision < create {
			create = kv.CreateRevision
		}
	}
	return create
}

// Token is the create revision of Key, and of all of AllKeys.
func (a *Acquisition) Token() fencing.Token { return tokenOf(a.own()) }

// aboveFloor refuses a token that is not above floor, because storage may have seen a greater
// one.
func aboveFloor(t, floor fencing.Token) error {
	if t <= floor {
		return fmt.Errorf("%w: %d, the floor is %d", state.ErrTokenFloor, t, floor)
	}
	return nil
}
