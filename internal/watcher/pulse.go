package watcher

import (
	"time"

	"github.com/pawl-locks/pawl/internal/backoff"
)

const (
	answerWithin = 3 * time.Second // sending must not block for longer, or the stream is abandoned
	quietFor     = 5 * time.Second // after that, a silent stream is probed
	idleFor      = 2 * time.Second // after that, a stream without watches is closed
	drainFor     = 100 * time.Millisecond
	sweepAfter   = 20 * time.Millisecond // how long a cancel that is not urgent waits to be sent with others

	// steady is how long a stream must have lived for its end not to count as another failure in a
	// row. Without it, a server that accepts streams and ends them would be queried without a pause.
	steady = 2 * time.Second
)

// pulse decides, only from times, whether a stream is alive. The zero pulse is that of a stream whose
// token is being fetched, which has other time limits. With since set, it is that of a stream which is
// being opened.
//
// A silent stream is probed with an echo, which is a creation that the server must refuse. A progress
// request would not do, because etcd leaves it unanswered while one of the stream's watches is not
// synced or starts above the current revision, as a watch that waits on an otherwise idle cluster does.
type pulse struct {
	open       bool
	since      time.Time // when opening began, or the last answer came
	unanswered time.Time // when the first unanswered creation (or echo) was sent, or the one before it was answered; zero if there is none
}

// act says what is due.
type act int

const (
	nothing act = iota
	probe
	abandon
)

// alive is the event that an answer of any kind came.
func (p *pulse) alive(now time.Time) { p.since = now }

// sent is the event that a creation was sent.
func (p *pulse) sent(now time.Time) {
	if p.unanswered.IsZero() {
		p.unanswered = now
	}
}

// answered is the event that a creation was answered, after which left are still unanswered.
func (p *pulse) answered(now time.Time, left int) {
	p.unanswered = time.Time{}
	if left > 0 {
		p.unanswered = now
	}
}

// due returns what to do at now, and when to check again if nothing happens until then. A stream that has a token must
// open within the time within, and a creation or an echo be answered within it.
func (p *pulse) due(now time.Time, within time.Duration) (what act, at time.Time) {
	switch {
	case p.since.IsZero():
		return nothing, at
	case !p.open:
		what, at = abandon, p.since.Add(within)
	case !p.unanswered.IsZero():
		what, at = abandon, p.unanswered.Add(within)
	default:
		what, at = probe, p.since.Add(quietFor)
	}
	if now.Before(at) {
		return nothing, at
	}
	return what, at
}

// sooner returns the earlier time; the zero Time means never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// retry paces the reopening of one stream.
type retry struct {
	failed  bool // the last stream also ended before it was steady
	backoff backoff.Backoff
}

// ended counts an end of a stream that gave answers for lived, and returns how long to wait before
// opening the next. After the first end there is no wait.
func (r *retry) ended(lived time.Duration) time.Duration {
	if lived >= steady || !r.failed {
		r.failed = true
		r.backoff.Reset()
		return 0
	}
	return r.backoff.Next()
}
