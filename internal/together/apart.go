package together

import (
	"maps"
	"time"
)

// apartFor is how long a queue or a session that was refused sends its writes alone.
const apartFor = 10 * time.Second

// apart remembers what was refused because of its content, whose writes are then sent alone for
// a while (rule G9). That is a queue that the user may not write, a session whose lease is
// gone, or a session that may not be written to because of a key on its lease (F5), which is
// recognized when a second queue of it is refused. It is pure.
type apart struct {
	queues map[string]denial
	leases map[int64]time.Time // until when
}

type denial struct {
	lease int64 // whose write was refused
	until time.Time
}

// has reports whether w is to be sent alone at now.
func (a *apart) has(w *Write, now time.Time) bool {
	if len(a.queues) == 0 && len(a.leases) == 0 {
		return false
	}
	if now.Before(a.leases[w.Lease]) || now.Before(a.queues[w.Queue].until) {
		return true
	}
	for _, q := range w.More {
		if now.Before(a.queues[q].until) {
			return true
		}
	}
	return false
}

// denied records that w, sent alone, was refused because of its queue.
func (a *apart) denied(w *Write, now time.Time) {
	a.forget(now)
	for q, d := range a.queues {
		if d.lease == w.Lease && q != w.Queue {
			a.gone(w, now)
		}
	}
	if a.queues == nil {
		a.queues = make(map[string]denial)
	}
	for _, q := range append([]string{w.Queue}, w.More...) {
		a.queues[q] = denial{w.Lease, now.Add(apartFor)}
	}
}

// gone records that w, sent alone, was refused because of its session.
func (a *apart) gone(w *Write, now time.Time) {
	a.forget(now)
	if a.leases == nil {
		a.leases = make(map[int64]time.Time)
	}
	a.leases[w.Lease] = now.Add(apartFor)
}

// forget drops expired entries.
func (a *apart) forget(now time.Time) {
	maps.DeleteFunc(a.queues, func(_ string, d denial) bool { return !now.Before(d.until) })
	maps.DeleteFunc(a.leases, func(_ int64, until time.Time) bool { return !now.Before(until) })
}
