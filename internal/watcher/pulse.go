package watcher

import "time"

const (
	openWithin   = 3 * time.Second // a stream opens, once there is a token, and
	answerWithin = 3 * time.Second // a creation, and a question, is answered, or the stream is abandoned
	quietFor     = 5 * time.Second // then a silent stream is probed
	echoAfter    = 1 * time.Second // after a progress request that was not answered
	idleFor      = 2 * time.Second // then a stream without watches is closed
	drainFor     = 100 * time.Millisecond
	sweepAfter   = 20 * time.Millisecond // how long a cancel that is in no hurry waits for company
)

// pulse decides, from times alone, whether a stream lives. The zero pulse is of a stream whose token is being fetched,
// for which others answer; with since set, of one that is being opened.
//
// There are two questions. A progress request is the cheap one, but etcd leaves it unanswered while
// one of the stream's watches is not synced or starts above the present revision, as a watch does that
// waits on an otherwise idle cluster. So it is followed by an echo: a creation that the server must refuse.
type pulse struct {
	open       bool
	since      time.Time // opening began, or the last answer came
	unanswered time.Time // when the first unanswered creation (or echo) was sent, or the one before it was answered; zero: there is none
	probed     time.Time // when the unanswered progress request was sent; zero: there is none
	echoed     bool      // since probed
}

// act is what is due.
type act int

const (
	nothing act = iota
	progress
	echo
	abandon
)

// opening: the stream is requested from a member.
func (p *pulse) opening(now time.Time) { *p = pulse{since: now} }

// opened: the stream is there.
func (p *pulse) opened(now time.Time) { *p = pulse{open: true, since: now} }

// alive: an answer came, of whatever kind.
func (p *pulse) alive(now time.Time) {
	p.since, p.probed, p.echoed = now, time.Time{}, false
}

// sent: a creation was sent, now.
func (p *pulse) sent() {
	if p.unanswered.IsZero() {
		p.unanswered = time.Now()
	}
}

// answered: a creation was, and left are not yet.
func (p *pulse) answered(now time.Time, left int) {
	p.unanswered = time.Time{}
	if left > 0 {
		p.unanswered = now
	}
}

// due says what is to be done at now, and when to check again if nothing happens until then.
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

// sooner returns the earlier one; the zero Time is never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
