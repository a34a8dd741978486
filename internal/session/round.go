package session

import (
	"math/rand/v2"
	"time"

	"github.com/pawl-locks/pawl/internal/backoff"
)

// A round is the tries from one confirmed renewal to the next. It is pure:
// the renewer gets from it what to do at a time.
type round struct {
	begin    time.Time // when the first try is made
	hedge    time.Time // when one that has no answer is joined by another; zero: none is under way
	retry    time.Time // not before, after failures
	failures int
}

// due reports whether a try is to be made at now, with n under way.
func (r *round) due(now time.Time, n int) bool {
	switch {
	case n >= maxTries:
		return false
	case n == 0:
		return !now.Before(r.begin) && !now.Before(r.retry)
	default:
		return !now.Before(r.hedge)
	}
}

// next is when due can change without anything else happening.
func (r *round) next(n int) time.Time {
	switch {
	case n >= maxTries:
		return r.hedge.Add(time.Hour) // a result comes first: every try is bounded
	case n == 0 && r.retry.After(r.begin):
		return r.retry
	case n == 0:
		return r.begin
	default:
		return r.hedge
	}
}

// fail notes a failure, with left until the deadline: the first is followed by
// another try at once, later ones after a doubling wait, which gets shorter
// again as the deadline comes closer, so that a failure that ends before it is
// survived.
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

// scatter moves the first try to a random instant between now and when it is due, so that
// rounds which are due at one instant do not begin at one.
func (r *round) scatter(now time.Time) {
	if left := r.begin.Sub(now); left > 0 {
		r.begin = now.Add(rand.N(left))
	}
}
