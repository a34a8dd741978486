package session

import (
	"math/big"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/lease"
)

// Rule T2: deadline = c + granted·(1 − 1/6), and Margin only enlarges the sixth.
// rule: T2
func TestDeadlineIsASixthOfTheTTLBeforeTheServersExpiry(t *testing.T) {
	c := clock.Now()
	for _, at := range []struct{ granted, margin, want time.Duration }{
		{15 * time.Second, 0, 12500 * time.Millisecond},
		{3 * time.Second, 0, 2500 * time.Millisecond},
		{6 * time.Second, 2 * time.Second, 4 * time.Second},
		{6 * time.Second, time.Second, 5 * time.Second},
		{6 * time.Second, time.Second - 1, 5 * time.Second},
		{60 * time.Second, 2 * time.Second, 50 * time.Second}, // the server raised the TTL, so the sixth is larger
		{10 * time.Second, 0, 10*time.Second - 1666666667},    // the sixth is rounded up
		{0, 0, 0},
	} {
		w := newWindow(c, at.granted, at.margin)
		assert.Equal(t, at.want, w.deadline().Sub(c), "TTL %v, margin %v", at.granted, at.margin)
	}
}

func TestWindowIsOverAtItsDeadlineAndNotANanosecondBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clock.Now()
		w := newWindow(c, 6*time.Second, 0)
		assert.NoError(t, w.expired(c.Add(5*time.Second-1)))
		assert.Equal(t, time.Nanosecond, w.remaining(c.Add(5*time.Second-1)))
		assert.ErrorIs(t, w.expired(c.Add(5*time.Second)), lease.ErrExpired)
		assert.ErrorIs(t, w.expired(c.Add(time.Hour)), lease.ErrExpired)
	})
}

// Rule T1: a wall clock that ran ahead by more than the margin ends the session. One that ran ahead by
// just the margin, or went back, does not.
func TestWindowIsOverWhenTheWallClockRanAheadByMoreThanTheMargin(t *testing.T) {
	t.Cleanup(func() { clock.SetWallJump(0) })
	synctest.Test(t, func(t *testing.T) {
		w := newWindow(clock.Now(), 6*time.Second, 0)
		for jump, want := range map[time.Duration]error{
			time.Second: nil, -time.Hour: nil, time.Second + 1: lease.ErrExpired, time.Hour: lease.ErrExpired,
		} {
			clock.SetWallJump(jump)
			assert.ErrorIs(t, w.expired(clock.Now()), want, "%v", jump)
		}
	})
}

// The arithmetic is compared with the rule, computed in rationals.
// rule: T2
func FuzzWindowKeepsAtLeastASixth(f *testing.F) {
	f.Add(int64(15e9), int64(0), int64(12.5e9))
	f.Add(int64(3e9), int64(1e9), int64(2e9))
	f.Add(int64(10e9), int64(0), int64(8333333333))
	f.Fuzz(func(t *testing.T, granted, margin, after int64) {
		if granted < 0 || margin < 0 || granted > 1<<61 || margin > 1<<61 || after < 0 || after > 1<<61 {
			t.Skip()
		}
		c := clock.Now()
		w := newWindow(c, time.Duration(granted), time.Duration(margin))
		// valid at c+after if and only if after < granted − max(margin, granted/6)
		sixth := new(big.Rat).SetFrac64(granted, 6)
		keep := new(big.Rat).SetInt64(margin)
		if keep.Cmp(sixth) < 0 {
			keep = sixth
		}
		end := new(big.Rat).Sub(new(big.Rat).SetInt64(granted), keep)
		at := new(big.Rat).SetInt64(after)
		valid := w.remaining(c.Add(time.Duration(after))) > 0
		if valid {
			require.Negative(t, at.Cmp(end), "valid after the rule's deadline")
		} else {
			at.Add(at, big.NewRat(1, 1)) // rounding may take less than one nanosecond
			require.GreaterOrEqual(t, at.Cmp(end), 0, "over more than a nanosecond before the rule's deadline")
		}
	})
}
