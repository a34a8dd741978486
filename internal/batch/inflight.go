package batch

import (
	"time"

	"github.com/pawl-locks/pawl/internal/cluster"
)

const (
	leastInflight = 2
	tripPerTry    = 300 * time.Microsecond // a round trip of n times this allows n requests in flight
	mostInflight  = 16                     // more would save a sixteenth of a round trip, and would flood a slow server
	minPatience   = 300 * time.Millisecond // the least time that a try may go without an answer
)

// inflight tracks the requests in flight, and which of them count toward their limit (rule G4). It is
// pure.
//
// Invariants: busy is the number of requests that count, and overdue the number of those that are late.
type inflight struct {
	all     []tracked
	free    []int // tickets not in use
	busy    int
	overdue int
	trip    least
}

// tracked is the state of one request. Its index is the request's ticket.
type tracked struct {
	counts bool // a try is under way, or about to begin, and is not late
	late   bool // a try is under way without an answer for too long, and no longer counts
	since  time.Time
	member *cluster.Member // the member of the try, or nil if none has begun
}

// most is how many requests may be in flight before further writes gather.
func (f *inflight) most() int {
	return min(max(leastInflight, int(f.trip.value()/tripPerTry)), mostInflight)
}

// open reports whether fewer requests count than may be in flight.
func (f *inflight) open() bool { return f.busy < f.most() }

// take admits a request and returns its ticket.
func (f *inflight) take(now time.Time) (ticket int) {
	if n := len(f.free); n > 0 {
		ticket, f.free = f.free[n-1], f.free[:n-1]
	} else {
		ticket = len(f.all)
		f.all = append(f.all, tracked{})
	}
	f.all[ticket] = tracked{counts: true, since: now}
	f.busy++
	return ticket
}

// began is the event that a try of the request is sent to m.
func (f *inflight) began(ticket int, m *cluster.Member, now time.Time) {
	f.paused(ticket)
	f.all[ticket] = tracked{counts: true, since: now, member: m}
	f.busy++
}

// paused is the event that no try of the request is under way. It reports whether one was.
func (f *inflight) paused(ticket int) (was bool) {
	x := f.all[ticket]
	switch {
	case x.counts:
		f.busy--
	case x.late:
		f.overdue--
	}
	f.all[ticket] = tracked{}
	return x.counts || x.late
}

// answered is the event that the request was answered at now.
func (f *inflight) answered(ticket int, now time.Time) { f.trip.add(now.Sub(f.all[ticket].since), now) }

// give returns a ticket, and reports whether a try of its request was under way until now.
func (f *inflight) give(ticket int) (was bool) {
	f.free = append(f.free, ticket)
	return f.paused(ticket)
}

// patience is how long a try may go without an answer before it is late.
func (f *inflight) patience() time.Duration { return max(minPatience, 3*f.trip.value()) }

// expire marks the tries that are late at now.
func (f *inflight) expire(now time.Time) {
	for i := range f.all {
		if x := &f.all[i]; x.counts && now.Sub(x.since) >= f.patience() {
			x.counts, x.late = false, true
			f.busy--
			f.overdue++
		}
	}
}

// next is when a try may next become late, or the zero Time if none is under way.
func (f *inflight) next() (at time.Time) {
	for i := range f.all {
		if x := &f.all[i]; x.counts && (at.IsZero() || x.since.Before(at)) {
			at = x.since
		}
	}
	if at.IsZero() {
		return at
	}
	return at.Add(f.patience())
}

// silent is a member with a late try, or nil if there is none.
func (f *inflight) silent() *cluster.Member {
	for i := 0; f.overdue > 0 && i < len(f.all); i++ {
		if x := &f.all[i]; x.late && x.member != nil {
			return x.member
		}
	}
	return nil
}

// least is the minimum of the values of the last five to ten seconds. The time is that long because a
// server under load answers few requests as fast as the network allows.
type least struct {
	since     time.Time // when now began
	now, last time.Duration
}

const recent = 5 * time.Second

func (l *least) add(d time.Duration, at time.Time) {
	if at.Sub(l.since) >= recent {
		l.since, l.last, l.now = at, l.now, d
	}
	l.now = min(l.now, d)
}

// value is the minimum, or 0 if there is none yet.
func (l *least) value() time.Duration {
	if l.last != 0 {
		return min(l.last, l.now)
	}
	return l.now
}
