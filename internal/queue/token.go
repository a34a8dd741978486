package queue

import (
	"fmt"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/queue/state"
	"github.com/pawl-locks/pawl/internal/txn"
)

// A token is the create revision of the acquisition's key (rule K1). etcd assigns it when it
// applies the put of that key. An acquisition learns it in one of these ways:
//
//	PutRevision  the answer to the put of the key: the enqueue (enqueued, enqueue.go), or the take of
//	             a semaphore's slot (take, semaphore.go)
//	putAt        a read of the key, after the enqueue's answer was lost (settle.go)
//	TakeFound    a read of a slot's key, after the take's answer was lost (foundTake, semaphore.go)
//	queryOwned   the token that another process learned, which a query then compares (resume.go)

// putAt returns the create revision of the keys, as they were read, or 0 if none exists. A key that
// somebody deleted and made again has a greater create revision.
func putAt(own txn.Answers) (create int64) {
	for kv := range own.All() {
		if create == 0 || kv.CreateRevision < create {
			create = kv.CreateRevision
		}
	}
	return create
}

// Token returns the create revision of Key, and of all of AllKeys.
func (a *Acquisition) Token() fencing.Token { return fencing.Token(a.own().Create) }

// aboveFloor refuses a token that is not above floor, because storage may have seen a greater
// one.
func aboveFloor(t, floor fencing.Token) error {
	if t <= floor {
		return fmt.Errorf("%w: %d, the floor is %d", state.ErrTokenFloor, t, floor)
	}
	return nil
}
