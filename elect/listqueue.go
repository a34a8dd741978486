package elect

import (
	"context"

	"github.com/pawl-locks/pawl/internal/inspect"
)

// A Queue lists who leads and who is a candidate, in order: the first leads, or is about to. It
// shows one moment, for people and dashboards, and does not prove that anybody leads now.
type Queue = inspect.Queue

// A Queued is one entry of a Queue: Key, Token, Holds, Owner, Host, PID, Since, Lease, Mode,
// and Slot, which is -1 except for a semaphore's.
type Queued = inspect.Queued

// A Mode is the mode in which an entry of a Queue acquires the name.
type Mode = inspect.Mode

// The modes.
const (
	ModeExclusive = inspect.ModeExclusive // exclusively
	ModeForeign   = inspect.ModeForeign   // a key that is not pawl's, which blocks until somebody deletes it
)

// Queue reads who leads and who is a candidate, in order, at one moment during the call. It is
// empty if nobody uses the name. A lock and an election of one name are one queue. Queue reads
// from the cluster, linearizably, and writes nothing. With a *pawl.Client it needs no session;
// with other Sessions it uses the current one. Its cost to the server is proportional to the
// queue's length.
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
