package backoff

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

func TestEachWaitIsHalfToAllOfTwiceTheOneBeforeUpToTheBound(t *testing.T) {
	for range 100 {
		b := Backoff{First: 100 * time.Millisecond, Most: time.Second}
		for range 2 {
			for _, most := range []time.Duration{100, 200, 400, 800, 1000, 1000} {
				d := b.Next()
				require.LessOrEqual(t, d, most*time.Millisecond)
				require.GreaterOrEqual(t, d, most*time.Millisecond/2)
			}
			b.Reset()
		}
	}
}

func TestWaitsOfOneLengthNeverGrow(t *testing.T) {
	b := Backoff{First: time.Second}
	for range 100 {
		require.LessOrEqual(t, b.Next(), time.Second)
	}
}

func TestAWaitThatCannotDoubleStaysAtTheBound(t *testing.T) {
	b := Backoff{First: 1, Most: 1<<63 - 1}
	for range 200 {
		require.Positive(t, b.Next()+1)
	}
	assert.Greater(t, b.Next(), time.Duration(1<<61))
}

func TestJitterOfNothingIsNothing(t *testing.T) {
	assert.Zero(t, Jitter(0))
	assert.Zero(t, Jitter(-time.Second))
	assert.Equal(t, time.Duration(1), Jitter(1))
	spread := map[time.Duration]bool{}
	for range 1000 {
		spread[Jitter(10)] = true
	}
	assert.Len(t, spread, 6, "5 to 10")
}

func TestSleepReturnsAtOnceWhenTheContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := Backoff{First: time.Hour, Most: time.Hour}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		assert.False(t, b.Sleep(ctx))
		assert.Equal(t, time.Second, time.Since(began))
		assert.False(t, b.Sleep(ctx))
		assert.False(t, Sleep(ctx, 0))
		assert.True(t, Sleep(t.Context(), time.Minute))
		assert.Equal(t, time.Second+time.Minute, time.Since(began))
	})
}

func TestWaitReturnsAtOnceWhenOneOfTheTwoIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open, closed := make(chan struct{}), make(chan struct{})
		close(closed)
		began := time.Now()
		assert.False(t, Wait(time.Hour, closed, open))
		assert.False(t, Wait(time.Hour, open, closed))
		assert.Zero(t, time.Since(began))
		assert.True(t, Wait(time.Minute, open, nil))
		assert.Equal(t, time.Minute, time.Since(began))
	})
}

func TestAnIntervalIsSpreadByATenth(t *testing.T) {
	spread := map[time.Duration]bool{}
	for range 1000 {
		spread[Spread(20)] = true
	}
	assert.Len(t, spread, 5, "18 to 22")
}
