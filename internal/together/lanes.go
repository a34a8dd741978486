package together

import (
	"time"

	"github.com/pawl-locks/pawl/internal/cluster"
)

const (
	fewestLanes = 2
	perLane     = 300 * time.Microsecond // of the round trip for each lane
	mostLanes   = 16                     // more would save a sixteenth of a round trip, and would flood a slow server
	minPatience = 300 * time.Millisecond // the least time that an attempt may go without an answer
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
	holds  bool // an attempt is under way, or about to begin, and is not late
	late   bool // an attempt is under way without an answer for too long, and no longer counts
	since  time.Time
	member *cluster.Member // the member of the attempt; nil: none has begun
}

// most is how many requests may be under way before further writes gather.
func (l *lanes) most() int {
	return min(max(fewestLanes, int(l.trip.value()/perLane)), mostLanes)
}

func (l *lanes) open() bool { return l.busy < l.most() }

// take admits a request and returns its ticket.
func (l *lanes) take(now time.Time) (ticket int) {
	if n := len(l.free); n > 0 {
		ticket, l.free = l.free[n-1], l.free[:n-1]
	} else {
		ticket = len(l.all)
		l.all = append(l.all, lane{})
	}
	l.all[ticket] = lane{holds: true, since: now}
	l.busy++
	return ticket
}

// began says that an attempt of the request is sent to m.
func (l *lanes) began(ticket int, m *cluster.Member, now time.Time) {
	l.ended(ticket)
	l.all[ticket] = lane{holds: true, since: now, member: m}
	l.busy++
}

// answered says that the attempt was answered at now.
func (l *lanes) answered(ticket int, now time.Time) {
	l.trip.add(now.Sub(l.all[ticket].since))
	l.ended(ticket)
}

// ended says that no attempt of the request is under way.
func (l *lanes) ended(ticket int) {
	switch x := l.all[ticket]; {
	case x.holds:
		l.busy--
	case x.late:
		l.overdue--
	}
	l.all[ticket] = lane{}
}

// give returns a ticket.
func (l *lanes) give(ticket int) {
	l.ended(ticket)
	l.free = append(l.free, ticket)
}

// patience is how long an attempt may go without an answer before it is late.
func (l *lanes) patience() time.Duration { return max(minPatience, 3*l.trip.value()) }

// expire marks the attempts that are late at now.
func (l *lanes) expire(now time.Time) {
	for i := range l.all {
		if x := &l.all[i]; x.holds && now.Sub(x.since) >= l.patience() {
			x.holds, x.late = false, true
			l.busy--
			l.overdue++
		}
	}
}

// next is when an attempt may next become late; the zero Time: none is under way.
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

// silent is a member with a late attempt; nil: there is none.
func (l *lanes) silent() *cluster.Member {
	for i := 0; l.overdue > 0 && i < len(l.all); i++ {
		if l.all[i].late {
			return l.all[i].member
		}
	}
	return nil
}

// least is the minimum of the most recent values: at least this many, and at most twice as
// many.
type least struct {
	n         int
	now, last time.Duration
}

const recent = 64

func (l *least) add(d time.Duration) {
	if l.n == 0 || d < l.now {
		l.now = d
	}
	if l.n++; l.n == recent {
		l.n, l.last = 0, l.now
	}
}

// value is the minimum; 0: there is none yet.
func (l *least) value() time.Duration {
	if l.n == 0 || l.last != 0 && l.last < l.now {
		return l.last
	}
	return l.now
}
