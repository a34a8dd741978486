// Package clock is the clock by which a session's validity is computed. It is the monotonic clock of
// package time, plus the time that the machine slept.
//
// Go's monotonic reading stops while a machine is suspended (golang/go#24595), but an etcd server's
// lease does not. A deadline kept by time.Now alone would look untouched after an hour of suspend, so
// this clock adds the time slept. That is the difference between the kernel's clock that runs during
// suspend and the one that does not.
//
// What it guarantees:
//
//  1. An Instant lies between the start and the end of the call of Now that returned it, on a clock
//     that never stops. The three sources are read in the order time.Now, the clock that stops, the
//     clock that runs on. A preemption in between can only move the reading later, and never beyond the
//     return. So an Instant read before a request was written is not later than its sending, and one
//     read for a check is not earlier than the beginning of the check.
//  2. Time slept below 10 ms counts as none, so that the cost of a preemption
//     is not mistaken for sleep on every reading.
//  3. Inside a testing/synctest bubble the time slept is zero and Now is
//     exactly time.Now.
//  4. Now does not allocate.
//
// It cannot detect that a virtual machine was frozen with all its clocks. Instant.WallAhead compares
// the wall clock, which such a machine usually corrects soon after, with this one. On systems other
// than Linux and macOS the time slept is not known, and only WallAhead detects a suspend.
package clock

import (
	"math"
	"time"
)

// An Instant is a reading of the clock. The zero Instant is before all others.
type Instant struct {
	at   time.Time     // time.Now at the reading
	gain time.Duration // the time slept until the reading, since the process began
	jump time.Duration // set by SetWallJump, for tests
}

// negligible is the apparent sleep that counts as none.
const negligible = 10 * time.Millisecond

// Now reads the clock.
func Now() Instant {
	t := time.Now()
	gain := (*source.Load())(t)
	if gain < negligible {
		gain = 0
	}
	return Instant{at: t, gain: gain, jump: time.Duration(wallJump.Load())}
}

// Add returns the instant d after i.
func (i Instant) Add(d time.Duration) Instant {
	i.at = i.at.Add(d)
	return i
}

// Sub returns the time from j to i, including the time slept. If that is longer than the
// longest Duration, as it is from the zero Instant, Sub returns the longest Duration.
func (i Instant) Sub(j Instant) time.Duration {
	awake, slept := i.at.Sub(j.at), i.gain-j.gain
	switch sum := awake + slept; {
	case slept > 0 && sum < awake:
		return math.MaxInt64
	case slept < 0 && sum > awake:
		return math.MinInt64
	default:
		return sum
	}
}

// Before reports whether i is before j.
func (i Instant) Before(j Instant) bool { return i.Sub(j) < 0 }

// IsZero reports whether i is the zero Instant.
func (i Instant) IsZero() bool { return i.at.IsZero() }

// Time returns what time.Now shows at the instant i if the machine does not sleep again after
// now. A stored result is wrong after a suspend. The zero Instant's is the zero Time.
func (i Instant) Time(now Instant) time.Time {
	if i.IsZero() {
		return time.Time{}
	}
	return now.at.Add(i.Sub(now))
}

// WallAhead returns how much further the wall clock went from j to i than this clock did. It is
// negative if the wall clock was set back.
func (i Instant) WallAhead(j Instant) time.Duration {
	wall := i.at.Round(0).Sub(j.at.Round(0)) + i.jump - j.jump
	return wall - i.Sub(j)
}
