package queue

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

// V4: nothing is promised of a hold that ends while the promise is made. The call says so at
// whichever of its readings of the clock the hold has lasted too long.
// rule: V4
func TestNothingIsPromisedOfAHoldThatEndsMeanwhile(t *testing.T) {
	const most = 5 * time.Second
	for at := int64(1); ; at++ {
		var readings atomic.Int64
		inBubble(t, etcdfake.Options{}, func(w *fixture) {
			defer clock.SetSource(nil)
			a, err := w.take(w.Context(), w.session(), labelled(Request{Limits: Limits{Max: most}}, 1))
			require.NoError(w, err)
			until := clock.Now().Add(time.Second)
			clock.SetSource(func(time.Time) time.Duration {
				if readings.Add(1) >= at {
					return most + time.Second // suspended; its session is valid still
				}
				return 0
			})
			err = a.Promise(until)
			made := readings.Load()
			clock.SetSource(func(time.Time) time.Duration { return 0 })
			if made >= at {
				require.ErrorIs(w, err, ErrMaxHold, "at reading %d of %d", at, made)
			} else {
				require.NoError(w, err)
			}
			_ = a.Release(w.Context(), errGivenBack)
		})
		if readings.Load() < at {
			assert.Greater(t, at, int64(3), "before, in between and after")
			return
		}
	}
}

// V4: a later promise that ends earlier does not shorten the first.
func TestALaterPromiseTakesNothingBack(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(w *fixture) {
		a := w.acquire(w.session())
		begin := clock.Now()
		require.NoError(w, a.Promise(begin.Add(5*time.Second)))
		require.NoError(w, a.Promise(begin.Add(time.Second)))
		a.Forfeit(ErrMaxHold)
		next := w.waiting(w.session())
		c := next.won()
		assert.GreaterOrEqual(w, clock.Now().Sub(begin), 5*time.Second)
		w.release(c)
	})
}

// V4: what was promised of a key keeps its lease too, whatever ends the session.
// rule: V4
func TestWhatWasPromisedOfAKeyKeepsItsLease(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(w *fixture) {
		s := w.session()
		a := w.acquire(s)
		until := clock.Now().Add(5 * time.Second)
		require.NoError(w, a.Promise(until))
		s.CloseInBackground()
		require.Error(w, a.Err())
		time.Sleep(until.Sub(clock.Now()) - time.Nanosecond)
		synctest.Wait()
		assert.NotNil(w, w.f.Get(a.Key()))
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Nil(w, w.f.Get(a.Key()))
	})
}

// V4: a Release withdraws what was promised of its key. Nothing of it keeps the lease, even if AtLeast
// still keeps the key.
// rule: V4
func TestAReleaseWithdrawsWhatWasPromised(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(w *fixture) {
		s := w.session()
		a, err := w.take(w.Context(), s, labelled(Request{Limits: Limits{AtLeast: time.Minute}}, 1))
		require.NoError(w, err)
		require.NoError(w, a.Promise(clock.Now().Add(time.Hour)))
		require.NoError(w, a.Release(w.Context(), errGivenBack))
		require.NoError(w, s.Close(w.Context()))
		_, there := w.f.Lease(s.ID())
		assert.False(w, there)
	})
}

// A hold ends no later than Limits.Max, and so does what may be promised of it.
func TestUntilIsNotAfterTheEndOfAHoldThatIsBounded(t *testing.T) {
	const most = 5 * time.Second
	inBubble(t, etcdfake.Options{}, func(w *fixture) {
		a, err := w.take(w.Context(), w.session(), labelled(Request{Limits: Limits{Max: most}}, 1))
		require.NoError(w, err)
		assert.Zero(w, a.Until().Sub(clock.Now().Add(most)))
		time.Sleep(most)
		assert.True(w, a.Until().IsZero())
		_ = a.Release(w.Context(), errGivenBack)
	})
}
