package lock

import (
	"context"

	"github.com/pawl-locks/pawl/internal/inspect"
)

// A Queue lists who holds the lock, or is about to, and then who waits for it, in order. It shows
// one moment, for people and dashboards, and does not prove that anybody holds the lock now. It is
// a []Queued:
//
//	type Queued struct {
//		Key   string        // whole, namespace included
//		Token fencing.Token // the create revision of Key; one that waits for a slot gets another
//		Holds bool          // it holds, or is about to; otherwise it waits
//		Owner string        // of its Options or its session's; "" if not known
//		Host  string        // of its process, as that reports it
//		PID   int           // of its process
//		Since time.Time     // when Key was put, by that process's clock
//		Lease int64         // its session's ID; 0 if none is known
//		Mode  Mode
//		Slot  int           // the slot of a semaphore that it holds; -1 if none
//	}
type Queue = inspect.Queue

// A Queued is one entry of a Queue: Key, Token, Holds, Owner, Host, PID, Since, Lease, Mode,
// and Slot, which is -1 except for a semaphore's.
type Queued = inspect.Queued

// A Mode is the mode in which a Held holds the name, or an entry of a Queue acquires it.
type Mode = inspect.Mode

// The modes.
const (
	ModeExclusive = inspect.ModeExclusive // exclusively
	ModeShared    = inspect.ModeShared    // together with other shared holders
	ModeSlot      = inspect.ModeSemaphore // a slot of a semaphore
	ModeForeign   = inspect.ModeForeign   // a key that is not pawl's, which blocks until somebody deletes it
)

// Queue reads who holds the lock and who waits for it, in order, at one moment during the call.
// It is empty if nobody uses the name. A lock and an election of one name are one queue. Queue
// reads from the cluster, linearizably, and writes nothing. With a *pawl.Client it needs no
// session; with other Sessions it uses the current one. Its cost to the server is proportional
// to the queue's length.
func (m *Mutex) Queue(ctx context.Context) (Queue, error) {
	return m.all().queue(ctx, inspect.KindLock)
}
