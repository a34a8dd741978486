package together

import (
	"maps"
	"time"
)

// quarantineFor is how long the writes of a queue go alone after one was refused.
const quarantineFor = 10 * time.Second

// quarantine holds the queues of writes that were refused because of their content, for a name that
// the user may not write, or a lease that is gone; and until when their writes are sent alone
// (rule G9). It is pure.
type quarantine map[string]time.Time

// has reports whether w is to be sent alone at now.
func (q quarantine) has(w *Write, now time.Time) bool {
	return len(q) > 0 && w.any(func(queue string) bool { return now.Before(q[queue]) })
}

// add records that w was refused, and drops what has expired.
func (q quarantine) add(w *Write, now time.Time) {
	maps.DeleteFunc(q, func(_ string, until time.Time) bool { return !now.Before(until) })
	w.any(func(queue string) bool {
		q[queue] = now.Add(quarantineFor)
		return false
	})
}
