package session

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/lease"
)

// Rules T2, T4: to the nanosecond, a renewal counts from its sending, an older one moves nothing back,
// and nothing extends what has ended.
func TestAValidityIsExtendedWhileItLastsAndNeverAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := clock.Now()
		v := &validity{}
		v.begin(began, 6*time.Second)
		end := began.Add(5 * time.Second)

		require.True(t, v.extend(began.Add(time.Second), 6*time.Second, end.Add(-1)))
		assert.Zero(t, v.window().deadline().Sub(end.Add(time.Second)))
		require.True(t, v.extend(began, 6*time.Second, end), "an older one")
		assert.Zero(t, v.window().deadline().Sub(end.Add(time.Second)), "moves nothing back")
		require.True(t, v.extend(began.Add(2*time.Second), 3*time.Second, end))
		assert.Zero(t, v.window().deadline().Sub(began.Add(4500*time.Millisecond)), "but a shorter TTL does")

		end = v.window().deadline()
		require.NoError(t, v.expired(end.Add(-1)))
		require.ErrorIs(t, v.expired(end), lease.ErrExpired)
		assert.False(t, v.extend(end, time.Minute, end))
		assert.ErrorIs(t, v.expired(end), lease.ErrExpired)
	})
}

func TestAValiditysEndNamesTheLastFailureSinceTheLastSuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := clock.Now()
		v := &validity{}
		v.begin(began, 6*time.Second)
		assert.True(t, v.failed(errors.New("first")))
		assert.False(t, v.failed(errors.New("second")))
		assert.ErrorContains(t, v.expired(began.Add(time.Hour)), "last failure: second")
		require.True(t, v.extend(began, 6*time.Second, began))
		assert.NotContains(t, v.expired(began.Add(time.Hour)).Error(), "failure")
		assert.True(t, v.failed(errors.New("third")))
	})
}
