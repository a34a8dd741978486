package batch

import (
	"maps"
	"time"
)

// quarantineFor is how long the writes of a queue are sent alone after one was refused.
const quarantineFor = 10 * time.Second

// quarantine holds, by queue, until when its writes are sent alone, because one of them was refused for
// its content: the user may not write the name, or the lease is gone (rule G9). It is pure.
type quarantine map[string]time.Time

// has reports whether w has to be sent alone at now.
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
