package lock

import (
	"errors"
	"fmt"
	"time"
)

// A Schedule says when a job is due. Next returns the first time after t, and the zero time if
// there is none. All machines that run the job need the same schedule. The schedules of robfig/cron
// are Schedules. One that names no time zone uses that of the machine, so set the same zone on all
// machines, or name one in the schedule.
type Schedule interface{ Next(t time.Time) time.Time }

// Interval is the schedule of the multiples of d, moved by offset. They count as those of
// time.Time.Truncate do, from midnight UTC: Interval(time.Hour, 0) is due at each full hour, and
// Interval(24*time.Hour, 3*time.Hour) at three o'clock UTC. d must be positive; Every refuses it
// otherwise.
func Interval(d, offset time.Duration) Schedule { return interval{d, offset} }

type interval struct{ d, offset time.Duration }

func (i interval) Next(t time.Time) time.Time {
	if i.d <= 0 {
		return time.Time{}
	}
	return t.Add(-i.offset).Truncate(i.d).Add(i.d + i.offset)
}

// CatchUp says what Every does with the times at which the job was due and nobody ran it: no
// process was there, or a run took longer than the time to the next.
type CatchUp int

const (
	// Latest runs the last of them, and skips those before it.
	Latest CatchUp = iota
	// All runs them in order, the last EveryOptions.Most of them.
	All
	// Skip runs none of them. A time is run by a process that was waiting for it when it came, and
	// only until the next one comes. So if a holder dies, another process that waited too succeeds
	// it.
	Skip
)

// missedMost bounds how many missed times are counted one by one. If there are more, the older half
// of the rest is passed over at once, as often as needed.
const missedMost = 100_000

// missed returns what s has after last and not after now: the newest most times, in order, and how
// many older ones were found. next is the first time after now, zero if there is none.
func missed(s Schedule, last, now time.Time, most int) (times []time.Time, older int, next time.Time, err error) {
	for t, n := last, 0; ; n++ {
		if next = s.Next(t.Local()); next.IsZero() {
			return times, older, next, nil
		}
		if !next.After(t) {
			return nil, 0, time.Time{}, fmt.Errorf("the schedule's time after %v is %v, which is not after it", t, next)
		}
		if next.After(now) {
			return times, older, next, nil
		}
		if t = next; len(times) == most {
			times, older = append(times[:0], times[1:]...), older+1
		}
		times = append(times, t)
		if n == missedMost {
			t, n = t.Add(now.Sub(t)/2), 0
		}
	}
}

// checkSchedule returns what is wrong with s.
func checkSchedule(s Schedule) error {
	switch i, ok := s.(interval); {
	case s == nil:
		return errors.New("nil Schedule")
	case ok && i.d <= 0:
		return fmt.Errorf("Interval of %v, want more than 0", i.d)
	}
	return nil
}
