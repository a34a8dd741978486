package queue

import (
	"fmt"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/queue/state"
)

// A token is the create revision of the acquisition's key (rule K1). etcd assigns it when it
// applies the put of that key. An acquisition learns it in one of these ways:
//
//	PutRevision  the answer to the put of the key: the enqueue (enqueued, enqueue.go), or the take of
//	             a semaphore's slot (take, semaphore.go)
//	first        a read of the key, after the enqueue's answer was lost (settle.go)
//	TakeFound    a read of a slot's key, after the take's answer was lost (foundTake, semaphore.go)
//	queryOwned   the token that another process learned, which a query then compares (resume.go)

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
