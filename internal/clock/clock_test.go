package clock

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
)

func sleptFor(t *testing.T, d *time.Duration) {
	t.Helper()
	SetSource(func(time.Time) time.Duration { return *d })
	t.Cleanup(func() { SetSource(nil) })
}

// rule: T1
func TestTimeSleptCountsAsElapsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var slept time.Duration
		sleptFor(t, &slept)
		c := Now()
		time.Sleep(2 * time.Second)
		slept = time.Hour
		assert.Equal(t, time.Hour+2*time.Second, Now().Sub(c))
	})
}

func TestSleepBelowTenMillisecondsCountsAsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var slept time.Duration
		sleptFor(t, &slept)
		c := Now()
		slept = 10*time.Millisecond - 1
		assert.Zero(t, Now().Sub(c))
		slept = 10 * time.Millisecond
		assert.Equal(t, 10*time.Millisecond, Now().Sub(c))
	})
}

func TestInABubbleNowIsExactlyTimeNow(t *testing.T) {
	SetSource(nil) // the source is made outside of the bubble, as in a program
	synctest.Test(t, func(t *testing.T) {
		for range 1000 {
			i := Now()
			require.Zero(t, i.gain)
			require.Equal(t, time.Now(), i.at)
		}
		c := Now()
		time.Sleep(100 * time.Hour)
		require.Zero(t, Now().gain)
		require.Equal(t, 100*time.Hour, Now().Sub(c))
		require.Zero(t, Now().WallAhead(c))
	})
}

// rule: T1
func TestAReadingLiesWithinItsCallThoughPreemptedInBetween(t *testing.T) {
	// The clock that runs on is read 50 ms after the one that stops, as after a preemption between
	// them.
	late := 50 * time.Millisecond
	var real time.Duration
	start := time.Now()
	stops := func() time.Duration { real = time.Since(start); return real }
	pause := time.Duration(0)
	runs := func() time.Duration { return real + pause }
	src := offset(stops, runs)
	pause = late
	SetSource(src)
	defer SetSource(nil)

	i := Now()
	assert.Equal(t, late, i.gain, "the reading moves later by the pause")
	pause = 0
	assert.Zero(t, Now().gain, "and the next one is not touched by it")
}

func TestBaseIsTheLeastOfSeveralReadings(t *testing.T) {
	n := 0
	stops := func() time.Duration { return 0 }
	runs := func() time.Duration {
		n++
		if n%2 == 1 {
			return 7*time.Second + 30*time.Millisecond // preempted
		}
		return 7 * time.Second
	}
	assert.Equal(t, 7*time.Second, runsAhead(stops, runs))
}

func TestTimeIsComputedAgainAfterASuspend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var slept time.Duration
		sleptFor(t, &slept)
		deadline := Now().Add(10 * time.Second)
		assert.Equal(t, time.Now().Add(10*time.Second), deadline.Time(Now()))
		slept = 4 * time.Second
		assert.Equal(t, time.Now().Add(6*time.Second), deadline.Time(Now()))
	})
}

func TestWallAheadSeesAJumpOfTheWallClockOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer SetWallJump(0)
		c := Now()
		time.Sleep(3 * time.Second)
		assert.Zero(t, Now().WallAhead(c))
		SetWallJump(time.Minute)
		assert.Equal(t, time.Minute, Now().WallAhead(c))
		assert.Equal(t, 3*time.Second, Now().Sub(c))
		SetWallJump(-time.Minute)
		assert.Equal(t, -time.Minute, Now().WallAhead(c))
	})
}

func TestMachineSourceIsSteady(t *testing.T) {
	c := Now()
	for range 10000 {
		require.False(t, Now().Before(c))
	}
	assert.Less(t, Now().Sub(c), testscale.Hang)
}

// rule: T1
func TestNowDoesNotAllocate(t *testing.T) {
	assert.Zero(t, testing.AllocsPerRun(1000, func() { Now() }))
}

func BenchmarkNow(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		Now()
	}
}

// The zero Instant is before all others, however long the machine has slept.
func TestTheZeroInstantIsBeforeAllOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slept := 2 * time.Hour
		sleptFor(t, &slept)
		now := Now()
		assert.True(t, Instant{}.Before(now))
		assert.Zero(t, Instant{}.Time(now))
		assert.False(t, now.Before(Instant{}))
		assert.Positive(t, now.Sub(Instant{}))
		assert.Negative(t, Instant{}.Sub(now))
		assert.True(t, Instant{}.Add(time.Hour).Before(now))
		assert.True(t, now.Before(now.Add(1<<63-1)))
		assert.False(t, now.Add(1<<63-1).Before(now))
	})
}
