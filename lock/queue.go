package lock

import (
	"context"
	"fmt"

	"github.com/pawl-locks/pawl/internal/inspect"
	"github.com/pawl-locks/pawl/internal/keys"
)

// A Queue is who holds the lock, or is about to, and then who waits for it, in order.
// It is a picture of one moment, for people and dashboards, and no evidence that
// anybody holds now.
type Queue = inspect.Queue

// A Queued is one in a Queue: Key, Token, Holds, Owner, Host, PID, Since, Lease, Mode, and
// Slot, which is -1 for all but a semaphore's.
type Queued = inspect.Queued

// A Mode is how one in a Queue wants the name.
type Mode = inspect.Mode

// What a Mode says.
const (
	ModeExclusive = inspect.ModeExclusive // alone
	ModeShared    = inspect.ModeShared    // together with other shared ones
	ModeSemaphore = inspect.ModeSemaphore // a slot of a semaphore
	ModeForeign   = inspect.ModeForeign   // a key in a form of nobody's, which blocks until somebody deletes it
)

// Queue reads who holds the lock and who waits for it, in order, at one moment during
// the call. It is empty where nobody wants the name. A lock and an election of one
// name are one queue. It reads from the cluster, linearizably, and writes nothing: with a
// *pawl.Client it needs no session, with other sessions it uses the one of now. It
// costs the server time in proportion to the queue.
func (m *Mutex) Queue(ctx context.Context) (Queue, error) {
	err := m.check(ctx)
	if err == nil {
		var q Queue
		if q, err = inspect.QueueOf(ctx, m.sessions, m.name, m.opts.EtcdLayout); err == nil {
			return q, nil
		}
	}
	return nil, fmt.Errorf("lock: queue %s: %w", keys.Quote(m.Name()), err)
}
