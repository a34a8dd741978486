package clock

import (
	"sync/atomic"
	"time"
)

// A Source returns how long the machine has slept since some fixed moment. It is called after
// time.Now was read as t.
type Source func(t time.Time) time.Duration

var (
	source   atomic.Pointer[Source]
	wallJump atomic.Int64
)

func init() { SetSource(nil) }

// SetSource replaces the source of the time slept, for tests of suspend. A nil Source restores the
// machine's.
func SetSource(s Source) {
	if s == nil {
		s = machine()
	}
	source.Store(&s)
}

// SetWallJump moves the wall clock, as WallAhead sees it, by d. It is for tests of a machine that was
// frozen together with its clocks.
func SetWallJump(d time.Duration) { wallJump.Store(int64(d)) }

// offset returns the source that compares two clocks of the kernel. Package time is built on stops;
// runs continues during suspend. They are read in this order (guarantee 1 of the package).
func offset(stops, runs func() time.Duration) Source {
	base := runsAhead(stops, runs)
	return func(t time.Time) time.Duration {
		if t == t.Round(0) { // time.Now has no monotonic reading only in a testing/synctest bubble
			return 0
		}
		s := stops()
		return runs() - s - base
	}
}

// monotonic reads the clock that package time is built on, without a system
// call.
func monotonic() func() time.Duration {
	start := time.Now()
	return func() time.Duration { return time.Since(start) }
}

// runsAhead returns how far runs is ahead of stops. It is the least of several readings, so that a
// preemption in one of them does not hide sleep later.
func runsAhead(stops, runs func() time.Duration) time.Duration {
	least := time.Duration(1<<63 - 1)
	for range 16 {
		s := stops()
		least = min(least, runs()-s)
	}
	return least
}
