package watcher

import (
	"time"

	"github.com/pawl-locks/pawl/internal/backoff"
)

const (
	minDelay = 50 * time.Millisecond
	maxDelay = 1 * time.Second
	// steady is how long a stream must have lived for its end not to count as one more failure in a row.
	// Without it, a server that takes streams and ends them would be asked without a pause.
	steady = 2 * time.Second
)

// retry paces the reopening of one stream.
type retry struct{ failures int }

// ended counts an end of a stream that lived (gave answers) for lived, and returns how long to wait before
// the next one: not at all after the first, then between 50 ms and 1 s.
func (r *retry) ended(lived time.Duration) time.Duration {
	if lived >= steady {
		r.failures = 0
	}
	r.failures++
	return delay(r.failures - 1)
}

// delay returns a random time from [50 ms, 100 ms) for n = 1, twice that for 2, and so on, up to [500 ms, 1 s);
// 0 for n = 0.
func delay(n int) time.Duration {
	if n <= 0 {
		return 0
	}
	return backoff.Jitter(min(2*minDelay<<min(n-1, 10), maxDelay))
}
