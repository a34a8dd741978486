package table

import (
	"time"

	"github.com/pawl-locks/pawl/internal/clock"
)

// This file is rules V1 and V2: how long a client may believe that it holds a lock.

// end is until when a client may believe that it holds r, by pawld's own clock (rule V2).
func (s *session) end(r *row) clock.Instant {
	end := s.expiry
	if d := r.holding.Until(); d.Before(end) {
		end = d
	}
	if r.params.MaxHold > 0 {
		if limit := r.acquired.Add(r.params.MaxHold); limit.Before(end) {
			end = limit
		}
	}
	return end
}

// Belief is how much of a time on pawld's clock a client gets: five sixths, in whole
// milliseconds, so that clocks whose rates differ by up to a tenth do no harm.
func Belief(d time.Duration) time.Duration {
	return max(d-(d+5)/6, 0).Truncate(time.Millisecond)
}

// Shortest is the shortest belief of the held ones; most if none is held.
func Shortest(all []Listed, most time.Duration) time.Duration {
	for _, l := range all {
		if l.State == Held {
			most = min(most, l.Valid)
		}
	}
	return most
}
