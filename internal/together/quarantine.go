package together

import (
	"maps"
	"time"
)

// quarantineFor is how long a queue or a session that was refused sends its writes alone.
const quarantineFor = 10 * time.Second

// quarantine remembers what was refused because of its content, whose writes are then sent alone for
// a while (rule G9). That is a queue that the user may not write, a session whose lease is
// gone, or a session that may not be written to because of a key on its lease (F5), which is
// recognized when a second queue of it is refused. It is pure.
type quarantine struct {
	queues map[string]denial
	leases map[int64]time.Time // until when
}

type denial struct {
	lease int64 // whose write was refused
	until time.Time
}

// has reports whether w is to be sent alone at now.
func (q *quarantine) has(w *Write, now time.Time) bool {
	if len(q.queues) == 0 && len(q.leases) == 0 {
		return false
	}
	if now.Before(q.leases[w.Lease]) || now.Before(q.queues[w.Queue].until) {
		return true
	}
	for _, name := range w.More {
		if now.Before(q.queues[name].until) {
			return true
		}
	}
	return false
}

// denied records that w, sent alone, was refused because of its queue.
func (q *quarantine) denied(w *Write, now time.Time) {
	q.forget(now)
	for name, d := range q.queues {
		if d.lease == w.Lease && name != w.Queue {
			q.gone(w, now)
		}
	}
	if q.queues == nil {
		q.queues = make(map[string]denial)
	}
	for _, name := range append([]string{w.Queue}, w.More...) {
		q.queues[name] = denial{w.Lease, now.Add(quarantineFor)}
	}
}

// gone records that w, sent alone, was refused because of its session.
func (q *quarantine) gone(w *Write, now time.Time) {
	q.forget(now)
	if q.leases == nil {
		q.leases = make(map[int64]time.Time)
	}
	q.leases[w.Lease] = now.Add(quarantineFor)
}

// forget drops expired entries.
func (q *quarantine) forget(now time.Time) {
	maps.DeleteFunc(q.queues, func(_ string, d denial) bool { return !now.Before(d.until) })
	maps.DeleteFunc(q.leases, func(_ int64, until time.Time) bool { return !now.Before(until) })
}
