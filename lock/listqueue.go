package lock

import (
	"context"
	"fmt"

	"github.com/pawl-locks/pawl/internal/inspect"
	"github.com/pawl-locks/pawl/internal/keys"
)

// A Queue lists who holds the lock, or is about to, and then who waits for it, in order. It
// shows one moment, for people and dashboards, and does not prove that anybody holds the lock
// now.
type Queue = inspect.Queue

// A Queued is one entry of a Queue: Key, Token, Holds, Owner, Host, PID, Since, Lease, Mode,
// and Slot, which is -1 except for a semaphore's.
type Queued = inspect.Queued

// A Mode is the mode in which an entry of a Queue acquires the name.
type Mode = inspect.Mode

// The modes.
const (
	ModeExclusive = inspect.ModeExclusive // exclusively
	ModeShared    = inspect.ModeShared    // together with other shared holders
	ModeSemaphore = inspect.ModeSemaphore // a slot of a semaphore
	ModeForeign   = inspect.ModeForeign   // a key that is not pawl's, which blocks until somebody deletes it
)

// Queue reads who holds the lock and who waits for it, in order, at one moment during the call.
// It is empty if nobody uses the name. A lock and an election of one name are one queue. Queue
// reads from the cluster, linearizably, and writes nothing. With a *pawl.Client it needs no
// session; with other Sessions it uses the current one. Its cost to the server is proportional
// to the queue's length.
func (m *Mutex) Queue(ctx context.Context) (Queue, error) {
	err := m.check(ctx)
	if err == nil {
		var q Queue
		if q, err = inspect.QueueOf(ctx, m.sessions, inspect.Scope{Name: m.name, EtcdLayout: m.opts.EtcdLayout, Only: inspect.KindLock}); err == nil {
			return q, nil
		}
	}
	return nil, fmt.Errorf("lock: queue %s: %w", keys.Quote(m.Name()), err)
}
