package session

import (
	"time"

	"github.com/pawl-locks/pawl/internal/backoff"
)

// A round holds the renewals from one confirmed renewal to the next. It is pure: it decides what
// the renewer does at a given time.
type round struct {
	begin    time.Time // when the first renewal is sent
	hedge    time.Time // when another renewal joins one that has no answer; zero: none is under way
	retry    time.Time // after failures, no renewal begins before this
	failures int
}

// due reports whether to begin a renewal at now, with n under way.
func (r *round) due(now time.Time, n int) bool {
	switch {
	case n >= maxUnderWay:
		return false
	case n == 0:
		return !now.Before(r.begin) && !now.Before(r.retry)
	default:
		return !now.Before(r.hedge)
	}
}

// next is when the answer of due can change if nothing else happens.
func (r *round) next(n int) time.Time {
	switch {
	case n >= maxUnderWay:
		return r.hedge.Add(time.Hour) // a result comes first: every renewal is bounded
	case n == 0 && r.retry.After(r.begin):
		return r.retry
	case n == 0:
		return r.begin
	default:
		return r.hedge
	}
}

// fail records a failure, with left until the deadline. The first failure is followed by
// another renewal at once, later ones after a wait. The wait doubles, and shrinks again as the
// deadline approaches, so that the session survives a failure that ends before the deadline.
func (r *round) fail(now time.Time, ttl, left time.Duration) {
	r.failures++
	if r.failures == 1 {
		r.retry = now
		return
	}
	wait := min(ttl/40<<min(r.failures-2, 8), ttl/8)
	wait = max(min(wait, left/4), min(ttl/40, 100*time.Millisecond))
	r.retry = now.Add(backoff.Jitter(wait))
}
