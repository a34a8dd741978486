package lock_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
)

// acquireWith acquires the name with options, on s.
func (w *fixture) acquireWith(s *pawl.Session, o lock.Options) *lock.Held {
	w.Helper()
	h, err := lock.New(s, "name", o).Acquire(w.Context())
	require.NoError(w, err)
	w.held(h)
	return h
}

// MaxHold ends a hold to the nanosecond, wherever a loss is reported and whether or not anybody
// calls Err. The next one acquires the lock soon after. The session goes on.
func TestAHoldThatLastsTooLongIsLost(t *testing.T) {
	for _, limit := range []time.Duration{time.Millisecond, time.Second, time.Minute} {
		t.Run(limit.String(), func(t *testing.T) {
			inBubble(t, func(w *fixture) {
				s := w.session()
				began := time.Now()
				h := w.acquireWith(s, lock.Options{MaxHold: limit})
				assert.False(w, h.Deadline().After(began.Add(limit)))
				ctx, done := h.Context(), h.Done()
				next := w.waiting(w.session())
				<-done
				assert.Equal(w, limit, time.Since(began))
				synctest.Wait()
				w.oneCause(lock.ErrMaxHold, context.Cause(ctx))
				w.lostBy(lock.ErrMaxHold, h)
				w.release(next.won())
				assert.Less(w, time.Since(began), limit+100*time.Millisecond)
				assert.NoError(w, s.Err())
				w.clear()
			})
		})
	}
}

// T3: Err needs no timer to be right, and no timer makes it wrong before.
func TestErrComparesTheClockForTheEndOfAHold(t *testing.T) {
	inBubble(t, func(w *fixture) {
		h := w.acquireWith(w.session(), lock.Options{MaxHold: time.Minute})
		time.Sleep(time.Minute - 1)
		w.held(h)
		assert.Equal(w, time.Now().Add(1), h.Deadline())
		time.Sleep(time.Nanosecond) // whether the session's loop has run, or not
		w.oneCause(lock.ErrMaxHold, h.Err())
		w.lostBy(lock.ErrMaxHold, h)
	})
}

// The context of Do's function ends, Do's error says why, and Do does not keep the lock for the
// function.
func TestDoLearnsThatItsHoldHasEnded(t *testing.T) {
	inBubble(t, func(w *fixture) {
		m := lock.New(w.session(), "name", lock.Options{MaxHold: time.Second})
		began := time.Now()
		err := m.Do(w.Context(), func(ctx context.Context, h *lock.Held) error {
			<-ctx.Done()
			assert.Equal(w, time.Second, time.Since(began))
			w.release(w.acquire(w.session()))
			return context.Cause(ctx)
		})
		w.oneCause(lock.ErrMaxHold, err)
		assert.ErrorIs(w, err, lock.ErrLost)
	})
}

// A hold that ends earlier, in any way, keeps that cause. The limit then has no effect.
func TestAHoldThatEndsBeforeItsLimitEndsAsItDoes(t *testing.T) {
	inBubble(t, func(w *fixture) {
		o := lock.Options{MaxHold: 20 * time.Second}
		s := w.session()
		released := w.acquireWith(s, o)
		w.release(released)
		lost := w.acquireWith(s, o)
		w.f.Delete(lost.Key())
		<-lost.Done()
		again := w.acquire(s)
		time.Sleep(time.Minute)
		w.released(released)
		w.oneCause(lock.ErrKeyDeleted, lost.Err())
		w.held(again)
		w.release(again)

		h := w.acquireWith(s, o)
		require.NoError(w, s.Close(w.Context()))
		time.Sleep(time.Minute)
		w.oneCause(lease.ErrClosed, h.Err())
	})
}

// A hold that a limit ends while the cluster does not answer is lost all the same, and its key is deleted once it does.
//
// rule: H6
func TestAHoldThatALimitEndsWhileNobodyAnswersIsRemovedLater(t *testing.T) {
	for cause, o := range map[error]lock.Options{lock.ErrMaxHold: {MaxHold: time.Second}, lock.ErrStalled: {Stall: time.Second}} {
		t.Run(cause.Error(), func(t *testing.T) {
			inBubble(t, func(w *fixture) {
				h := w.acquireWith(w.session(), o)
				fault := w.f.Inject(etcdfake.Rule{Method: "Txn", Lose: true})
				time.Sleep(2 * time.Second)
				w.oneCause(cause, h.Err())
				fault.Lift()
				w.clear()
			})
		})
	}
}

// A resumed hold counts from its resumption.
func TestAResumedHoldHasALimitOfItsOwn(t *testing.T) {
	inBubble(t, func(w *fixture) {
		s := w.session()
		h := w.acquire(s)
		time.Sleep(5 * time.Second)
		next, err := w.client(pawl.Config{}).NewSession(w.Context(), lease.Options{Resume: s.Detach()})
		require.NoError(w, err)
		began := time.Now()
		r, err := lock.New(next, "name", lock.Options{MaxHold: time.Second}).Resume(w.Context(), h.Key(), h.Token())
		require.NoError(w, err)
		w.held(r)
		<-r.Done()
		assert.Equal(w, time.Second, time.Since(began))
		w.lostBy(lock.ErrMaxHold, r)
		w.clear()
	})
}

// The clock that counts runs while the machine is suspended.
func TestTimeAsleepCountsForTheEndOfAHold(t *testing.T) {
	var slept atomic.Int64
	clock.SetSource(func(time.Time) time.Duration { return time.Duration(slept.Load()) })
	t.Cleanup(func() { clock.SetSource(nil) })
	inBubble(t, func(w *fixture) {
		h := w.acquireWith(w.session(), lock.Options{MaxHold: 5 * time.Second})
		slept.Store(int64(5*time.Second - 1))
		w.held(h)
		slept.Add(1)
		w.oneCause(lock.ErrMaxHold, h.Err())
		w.lostBy(lock.ErrMaxHold, h)
	})
}
