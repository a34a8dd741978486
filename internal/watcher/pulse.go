package watcher

import "time"

const (
	openWithin   = 3 * time.Second // a stream that has a token opens, or is abandoned
	answerWithin = 3 * time.Second // a creation or a probe is answered, or the stream is abandoned
	quietFor     = 5 * time.Second // after that, a silent stream is probed
	echoAfter    = 1 * time.Second // after a progress request that was not answered
	idleFor      = 2 * time.Second // after that, a stream without watches is closed
	drainFor     = 100 * time.Millisecond
	sweepAfter   = 20 * time.Millisecond // how long a cancel that is not urgent waits to be sent with others
)

// pulse decides, from times alone, whether a stream is alive. The zero pulse is that of a
// stream whose token is being fetched, which has time limits of its own; with since set, it is
// that of a stream which is being opened.
//
// There are two probes. A progress request is the cheap one, but etcd leaves it unanswered
// while one of the stream's watches is not synced or starts above the current revision, as a
// watch does that waits on an otherwise idle cluster. So it is followed by an echo: a creation
// that the server must refuse.
type pulse struct {
	open       bool
	since      time.Time // when opening began, or the last answer came
	unanswered time.Time // when the first unanswered creation (or echo) was sent, or the one before it was answered; zero if there is none
	probed     time.Time // when the unanswered progress request was sent; zero if there is none
	echoed     bool      // an echo was sent since probed
}

// act says what is due.
type act int

const (
	nothing act = iota
	progress
	echo
	abandon
)

// opening: the stream is requested from a member.
func (p *pulse) opening(now time.Time) { *p = pulse{since: now} }

// opened: the stream is open.
func (p *pulse) opened(now time.Time) { *p = pulse{open: true, since: now} }

// alive: an answer came, of whatever kind.
func (p *pulse) alive(now time.Time) {
	p.since, p.probed, p.echoed = now, time.Time{}, false
}

// sent: a creation was sent at now.
func (p *pulse) sent(now time.Time) {
	if p.unanswered.IsZero() {
		p.unanswered = now
	}
}

// answered: a creation was answered, and left are still unanswered.
func (p *pulse) answered(now time.Time, left int) {
	p.unanswered = time.Time{}
	if left > 0 {
		p.unanswered = now
	}
}

// due returns what to do at now, and when to check again if nothing happens until then.
func (p *pulse) due(now time.Time) (act, time.Time) {
	var limit, probe time.Time
	what := nothing
	switch {
	case !p.open && p.since.IsZero():
	case !p.open:
		limit = p.since.Add(openWithin)
	case !p.probed.IsZero():
		limit = p.probed.Add(answerWithin)
		if !p.echoed && p.unanswered.IsZero() {
			what, probe = echo, p.probed.Add(echoAfter)
		}
	case p.unanswered.IsZero():
		what, probe = progress, p.since.Add(quietFor)
	}
	if !p.unanswered.IsZero() {
		limit = sooner(limit, p.unanswered.Add(answerWithin))
	}
	switch {
	case !limit.IsZero() && !now.Before(limit):
		return abandon, limit
	case what != nothing && !now.Before(probe):
		return what, now
	}
	return nothing, sooner(limit, probe)
}

// sooner returns the earlier time; the zero Time means never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
