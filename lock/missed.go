package lock

import (
	"slices"
	"time"
)

// missedMost bounds how many missed times are counted one by one. If there are more, the older half
// of the rest is passed over at once, as often as needed.
const missedMost = 100_000

// A missed counts the times that a schedule has after one time and not after another. It keeps what it
// has counted: a count that begins at one of these times asks the schedule only for those that are new.
// All counts twice for each time that it runs.
type missed struct {
	schedule Schedule
	most     int // how many of the newest times are kept

	last  time.Time   // those after it were counted; zero if none were yet
	times []time.Time // the newest, in order
	older int         // how many were found before them
	next  time.Time   // the first that is not due; zero if there is none
	spot  time.Time   // the last after which the schedule did not advance; zero if it always did
	bad   error       // what was wrong there

	counted int       // since last, or since times were passed over
	passed  time.Time // up to when times were passed over; zero if none were
}

// count counts the times after last and not after now.
func (m *missed) count(last, now time.Time) error {
	if !m.goOn(last, now) {
		*m = missed{schedule: m.schedule, most: m.most, last: last}
		if err := m.step(last); err != nil {
			return err
		}
	}
	for !m.next.IsZero() && !m.next.After(now) {
		t := m.next
		if len(m.times) == m.most {
			m.times, m.older = m.times[1:], m.older+1
		}
		m.times = append(m.times, t)
		if m.counted++; m.counted > missedMost {
			t = t.Add(now.Sub(t) / 2)
			m.counted, m.passed = 1, t
		}
		if err := m.step(t); err != nil {
			return err
		}
	}
	return nil
}

// goOn makes m what a count after last would have found so far. It returns false if m does not know that,
// or if nothing was due: then the schedule is asked again.
func (m *missed) goOn(last, now time.Time) bool {
	if n := len(m.times); m.last.IsZero() || n == 0 || m.times[n-1].After(now) { // the clock was set back
		return false
	}
	if last.Equal(m.last) {
		return true
	}
	i, found := slices.BinarySearchFunc(m.times, last, time.Time.Compare)
	if !found || i == len(m.times)-1 || m.passed.After(m.times[0]) {
		return false
	}
	m.last, m.times, m.older = last, m.times[i+1:], 0
	m.counted, m.passed = len(m.times), time.Time{}
	if m.spot.Before(last) {
		m.spot, m.bad = time.Time{}, nil
	}
	return true
}

// step sets next to the first time after t. After an error, nothing counts as counted.
func (m *missed) step(t time.Time) (err error) {
	next, bad, err := nextAfter(m.schedule, t)
	if err != nil {
		m.last = time.Time{}
		return err
	}
	if m.next = next; bad != nil {
		m.spot, m.bad = t, bad
	}
	return nil
}
