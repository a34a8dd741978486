package elect

import (
	"context"

	"github.com/pawl-locks/pawl/internal/inspect"
)

// A Queue lists who leads and who is a candidate, in order, as lock.Queue does: the first leads,
// or is about to. It shows one moment, for people and dashboards, and does not prove that
// anybody leads now.
type Queue = inspect.Queue

// Queue reads who leads and who is a candidate, in order, at one moment during the call. It is
// empty if nobody uses the name. A lock and an election of one name are one queue. Queue reads
// from the cluster, linearizably, and writes nothing. With a *pawl.Client it needs no session;
// with other Sessions it uses the current one. Its cost to the server is proportional to the
// queue's length.
func (e *Election) Queue(ctx context.Context) (Queue, error) {
	if err := e.check(ctx); err != nil {
		return nil, failed("queue", e.Name(), ctx, err)
	}
	q, err := inspect.QueueOf(ctx, e.sessions, inspect.Scope{Name: e.name, EtcdLayout: e.opts.EtcdLayout, Only: inspect.KindLock})
	return q, failed("queue", e.Name(), ctx, err)
}
