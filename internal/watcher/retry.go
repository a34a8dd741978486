package watcher

import (
	"time"

	"github.com/pawl-locks/pawl/internal/backoff"
)

// steady is how long a stream must have lived for its end not to count as another failure in a
// row. Without it, a server that accepts streams and ends them would be queried without a pause.
const steady = 2 * time.Second

// retry paces the reopening of one stream.
type retry struct {
	failed  bool // the last stream also ended before it was steady
	backoff backoff.Backoff
}

func newRetry() retry { return retry{backoff: backoff.Request()} }

// ended counts an end of a stream that gave answers for lived, and returns how long to wait
// before the next one: not at all after the first.
func (r *retry) ended(lived time.Duration) time.Duration {
	if lived >= steady || !r.failed {
		r.failed = true
		r.backoff.Reset()
		return 0
	}
	return r.backoff.Next()
}
