package lock

import (
	"context"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

// asked is a schedule that counts how often it is asked.
type asked struct {
	Schedule
	n *int
}

func (s asked) Next(t time.Time) time.Time {
	*s.n++
	return s.Schedule.Next(t)
}

// halting is a schedule of each second that does not advance from one of them every other minute.
type halting struct{}

func (halting) Next(t time.Time) time.Time {
	next := t.Truncate(time.Second).Add(time.Second)
	if t.Minute()%2 == 0 && t.Second() == 3 {
		return t
	}
	return next
}

// All runs the missed times one after another, and counts before it waits for the lock and again while it
// holds it.
func TestATimeThatWasMissedIsCountedOnce(t *testing.T) {
	const n = 3000
	calls := 0
	m := &missed{schedule: asked{Interval(time.Second, 0), &calls}, most: n}
	last := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	now := last.Add(n*time.Second + time.Millisecond)
	for left := n; left > 0; left-- {
		require.NoError(t, m.count(last, now))
		require.NoError(t, m.count(last, now))
		require.Len(t, m.times, left)
		last = m.times[0]
	}
	assert.LessOrEqual(t, calls, n+10)
}

// The newest of many are kept without moving the others.
func TestACountOfMoreThanIsKeptTakesNoLonger(t *testing.T) {
	last := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	now := last.Add(90_000 * time.Second)
	m := &missed{schedule: Interval(time.Second, 0), most: 40_000}
	allocated := testing.AllocsPerRun(1, func() { require.NoError(t, m.count(last, now)); m.last = time.Time{} })
	assert.Len(t, m.times, 40_000)
	assert.Equal(t, 50_000, m.older)
	assert.Less(t, allocated, 100.0)
}

func TestACountThatGoesOnIsTheSameAsANewOne(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, s := range []Schedule{Interval(time.Second, 0), Interval(7*time.Second, time.Second), halting{}} {
		for _, most := range []int{1, 5, 60} {
			m := &missed{schedule: s, most: most}
			last := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
			now := last
			for range 300 {
				now = now.Add(time.Duration(rng.IntN(20_000)-2000) * time.Millisecond)
				fresh := &missed{schedule: s, most: most}
				require.NoError(t, fresh.count(last, now))
				require.NoError(t, m.count(last, now))
				assert.Equal(t, fresh.times, m.times[:len(m.times):len(m.times)])
				assert.Equal(t, fresh.older, m.older)
				assert.Equal(t, fresh.next, m.next)
				assert.Equal(t, fresh.spot, m.spot)
				assert.Equal(t, fresh.bad, m.bad)
				switch k := rng.IntN(4); {
				case k == 0 && len(m.times) > 0: // another process ran some
					last = m.times[rng.IntN(len(m.times))]
				case k == 1 && len(m.times) > 0:
					last = m.times[0]
				case k == 2:
					last = last.Add(-time.Duration(rng.IntN(5000)) * time.Millisecond) // an operator set it back
				}
			}
		}
	}
}

// Of very many times, the older half of what is left is passed over as often as needed.
func TestOfVeryManyMissedTimesFewAreCounted(t *testing.T) {
	calls := 0
	m := &missed{schedule: asked{Interval(time.Second, 0), &calls}, most: 3}
	last := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	now := last.Add(3_000_000 * time.Second)
	require.NoError(t, m.count(last, now))
	assert.True(t, now.Equal(m.times[2]), "the last one is found")
	assert.Less(t, calls, 6*missedMost)
}

// sleeps is a context that counts how often a wait with it begins.
type sleeps struct {
	context.Context
	n *int
}

func (s sleeps) Done() <-chan struct{} {
	*s.n++
	return s.Context.Done()
}

// A timer stands still while the machine is suspended, so a wait is many, and reads the clock after each.
func TestAWaitForAFarTimeReadsTheClockEachMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, n := time.Now(), 0
		require.True(t, new(every).sleepUntil(sleeps{t.Context(), &n}, began.Add(3*time.Hour)))
		assert.Equal(t, 3*time.Hour, time.Since(began))
		assert.GreaterOrEqual(t, n, 180)
	})
}
