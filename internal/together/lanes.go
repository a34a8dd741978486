package together

import (
	"time"

	"github.com/pawl-locks/pawl/internal/cluster"
)

const (
	fewestLanes = 2
	perLane     = 300 * time.Microsecond // of a round trip
	mostLanes   = 16                     // more would save a sixteenth of a round trip, and open wide where the server is slow
	minPatience = 300 * time.Millisecond // with an attempt that is not answered
)

// lanes are the requests that were let go, and which of them hold a lane (rule
// G4). It is pure.
//
// Invariants: busy is how many of all hold one, overdue how many are late.
type lanes struct {
	all     []lane
	free    []int // tickets that are nobody's
	busy    int
	overdue int
	trip    least
}

// A lane is one request's, known by its ticket.
type lane struct {
	holds  bool // an attempt is under way, or about to be, and not late
	late   bool // an attempt is under way, and is not counted any more
	since  time.Time
	member *cluster.Member // of the attempt; nil: there was none yet
}

// most is how many requests may be under way before others gather.
func (l *lanes) most() int {
	return min(max(fewestLanes, int(l.trip.value()/perLane)), mostLanes)
}

func (l *lanes) open() bool { return l.busy < l.most() }

// take lets a request go, and returns its ticket.
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

// began says that an attempt is sent to m.
func (l *lanes) began(ticket int, m *cluster.Member, now time.Time) {
	l.ended(ticket)
	l.all[ticket] = lane{holds: true, since: now, member: m}
	l.busy++
}

// answered says that the attempt was answered, and when.
func (l *lanes) answered(ticket int, now time.Time) {
	l.trip.add(now.Sub(l.all[ticket].since))
	l.ended(ticket)
}

// ended says that no attempt is under way.
func (l *lanes) ended(ticket int) {
	switch x := l.all[ticket]; {
	case x.holds:
		l.busy--
	case x.late:
		l.overdue--
	}
	l.all[ticket] = lane{}
}

// give gives a ticket back.
func (l *lanes) give(ticket int) {
	l.ended(ticket)
	l.free = append(l.free, ticket)
}

// patience is how long an attempt may go without an answer.
func (l *lanes) patience() time.Duration { return max(minPatience, 3*l.trip.value()) }

// expire takes the lanes of what is late at now.
func (l *lanes) expire(now time.Time) {
	for i := range l.all {
		if x := &l.all[i]; x.holds && now.Sub(x.since) >= l.patience() {
			x.holds, x.late = false, true
			l.busy--
			l.overdue++
		}
	}
}

// next is when something may be late; the zero Time: nothing is under way.
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

// silent is a member with an attempt that is late; nil: there is none.
func (l *lanes) silent() *cluster.Member {
	for i := 0; l.overdue > 0 && i < len(l.all); i++ {
		if l.all[i].late {
			return l.all[i].member
		}
	}
	return nil
}

// least is the least of the last values: of this many at least, and of twice as many
// at the most.
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

// value is the least; 0: none is known.
func (l *least) value() time.Duration {
	if l.n == 0 || l.last != 0 && l.last < l.now {
		return l.last
	}
	return l.now
}
