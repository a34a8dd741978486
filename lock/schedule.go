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

// stepMost is how far nextAfter steps over times after which a schedule does not advance. A zone's
// clock has skipped a whole day.
const stepMost = 25 * time.Hour

// nextAfter returns the first time of s after t, zero if there is none. If s does not advance from t, as
// where a library gets a change of the clock wrong, it goes on from the first minute after t from which
// s does, and bad says so. It returns an error if s does not advance from any.
func nextAfter(s Schedule, t time.Time) (next time.Time, bad, err error) {
	first := s.Next(t.Local())
	if first.IsZero() || first.After(t) {
		return first, nil, nil
	}
	bad = fmt.Errorf("%w: its time after %v is %v, which is not after it", ErrSchedule, t, first)
	ends := false
	for from := t.Add(time.Minute); from.Sub(t) <= stepMost; from = from.Add(time.Minute) {
		if next = s.Next(from.Local()); next.After(from) {
			return next, bad, nil
		}
		ends = next.IsZero()
	}
	if ends {
		return time.Time{}, bad, nil
	}
	return time.Time{}, nil, bad
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
