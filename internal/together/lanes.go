package together

import (
	"time"

	"github.com/pawl-locks/pawl/internal/cluster"
)

const (
	fewestLanes = 2
	perLane     = 300 * time.Microsecond // of the round trip for each lane
	mostLanes   = 16                     // more would save a sixteenth of a round trip, and would flood a slow server
	minPatience = 300 * time.Millisecond // the least time that a try may go without an answer
)

// lanes are the requests under way, and which of them occupy a lane (rule G4). It is pure.
//
// Invariants: busy counts the lanes with holds, overdue those with late.
type lanes struct {
	all     []lane
	free    []int // tickets not in use
	busy    int
	overdue int
	trip    least
}

// A lane is the state of one request; its index is the request's ticket.
type lane struct {
	holds  bool // a try is under way, or about to begin, and is not late
	late   bool // a try is under way without an answer for too long, and no longer counts
	shared bool // by several writes: held until they have their answers
	since  time.Time
	member *cluster.Member // the member of the try; nil: none has begun
}

// most is how many requests may be under way before further writes gather.
func (l *lanes) most() int {
	return min(max(fewestLanes, int(l.trip.value()/perLane)), mostLanes)
}

func (l *lanes) open() bool { return l.busy < l.most() }

// take admits a request of parts writes and returns its ticket.
func (l *lanes) take(parts int, now time.Time) (ticket int) {
	if n := len(l.free); n > 0 {
		ticket, l.free = l.free[n-1], l.free[:n-1]
	} else {
		ticket = len(l.all)
		l.all = append(l.all, lane{})
	}
	l.all[ticket] = lane{holds: true, shared: parts > 1, since: now}
	l.busy++
	return ticket
}

// began says that a try of the request is sent to m.
func (l *lanes) began(ticket int, m *cluster.Member, now time.Time) {
	l.ended(ticket)
	x := &l.all[ticket]
	x.holds, x.since, x.member = true, now, m
	l.busy++
}

// answered says that the try was answered at now. It reports whether the lane is free; that
// of a shared request is not before give.
func (l *lanes) answered(ticket int, now time.Time) (free bool) {
	x := l.all[ticket]
	l.trip.add(now.Sub(x.since), now)
	if x.shared && x.holds {
		return false
	}
	l.ended(ticket)
	return true
}

// ended says that no try of the request is under way.
func (l *lanes) ended(ticket int) {
	x := &l.all[ticket]
	switch {
	case x.holds:
		l.busy--
	case x.late:
		l.overdue--
	}
	*x = lane{shared: x.shared}
}

// give returns a ticket, and reports whether its lane was held until now.
func (l *lanes) give(ticket int) (held bool) {
	held = l.all[ticket].holds
	l.ended(ticket)
	l.free = append(l.free, ticket)
	return held
}

// patience is how long a try may go without an answer before it is late.
func (l *lanes) patience() time.Duration { return max(minPatience, 3*l.trip.value()) }

// expire marks the tries that are late at now.
func (l *lanes) expire(now time.Time) {
	for i := range l.all {
		if x := &l.all[i]; x.holds && now.Sub(x.since) >= l.patience() {
			x.holds, x.late = false, true
			l.busy--
			l.overdue++
		}
	}
}

// next is when a try may next become late; the zero Time: none is under way.
func (l *lanes) next() (at time.Time) {
	for i := range l.all {
		if x := &l.all[i]; x.holds && (at.IsZero() || x.since.Before(at)) {
			at = x.since
		}
	}
	if at.IsZero() {
		return at
	}
	return at.Add(l.patience())
}

// silent is a member with a late try; nil: there is none.
func (l *lanes) silent() *cluster.Member {
	for i := 0; l.overdue > 0 && i < len(l.all); i++ {
		if x := &l.all[i]; x.late && x.member != nil {
			return x.member
		}
	}
	return nil
}

// least is the minimum of the values of the last five to ten seconds. A server under load
// answers few requests as fast as the network allows, so the time is long.
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

// value is the minimum; 0: there is none yet.
func (l *least) value() time.Duration {
	if l.last != 0 {
		return min(l.last, l.now)
	}
	return l.now
}
