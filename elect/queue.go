package elect

import (
	"context"

	"github.com/pawl-locks/pawl/internal/inspect"
)

// A Queue is who leads and who is a candidate, in order: the first leads, or is about to.
// It is a picture of one moment, for people and dashboards, and no evidence that
// anybody leads now.
type Queue = inspect.Queue

// A Queued is one in a Queue: Key, Token, Holds, Owner, Host, PID, Since, Lease, Mode, and
// Slot, which is -1 for all but a semaphore's.
type Queued = inspect.Queued

// A Mode is how one in a Queue wants the name.
type Mode = inspect.Mode

// What a Mode says.
const (
	ModeExclusive = inspect.ModeExclusive // alone
	ModeForeign   = inspect.ModeForeign   // a key in a form of nobody's, which blocks until somebody deletes it
)

// Queue reads who leads and who is a candidate, in order, at one moment during
// the call. It is empty where nobody wants the name. A lock and an election of one
// name are one queue. It reads from the cluster, linearizably, and writes nothing: with a
// *pawl.Client it needs no session, with other sessions it uses the one of now. It
// costs the server time in proportion to the queue.
func (e *Election) Queue(ctx context.Context) (Queue, error) {
	err := e.check(ctx)
	if err == nil {
		var q Queue
		if q, err = inspect.QueueOf(ctx, e.sessions, e.name, e.opts.EtcdLayout); err == nil {
			return q, nil
		}
	}
	return nil, failed("queue", e.Name(), ctx, err)
}
