package lock_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/kv"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
)

type valueKey struct{}

// The context of the work is a child of Do's: it has Do's values, deadline and cancellation, and
// the token.
func TestDoRunsTheFunctionUnderAChildOfItsContext(t *testing.T) {
	inBubble(t, func(w *fixture) {
		ctx, cancel := context.WithTimeout(context.WithValue(w.Context(), valueKey{}, "v"), time.Hour)
		defer cancel()
		var inner context.Context
		var h *lock.Held
		require.NoError(w, mutex(w.session()).Do(ctx, func(ctx context.Context, held *lock.Held) error {
			inner, h = ctx, held
			w.held(held)
			assert.Equal(w, "v", ctx.Value(valueKey{}))
			d, ok := ctx.Deadline()
			assert.True(w, ok)
			assert.Equal(w, time.Hour, time.Until(d).Round(time.Second))
			name, token, ok := fencing.FromContext(ctx)
			assert.Equal(w, []any{"name", held.Token(), true}, []any{name, token, ok})
			return nil
		}))
		w.released(h)
		assert.ErrorIs(w, inner.Err(), context.Canceled, "nothing goes on in the background after Do")
		w.clear()
	})
}

func TestDoCancelsTheWorkWithTheCauseAndWaitsForItBeforeItReleases(t *testing.T) {
	eachBlow(t, func(w *fixture, b blow, c *pawl.Client, s *pawl.Session) {
		cause := make(chan error, 1)
		var h *lock.Held
		var ended time.Time
		err := mutex(s).Do(w.Context(), func(ctx context.Context, held *lock.Held) error {
			h = held
			time.Sleep(time.Second)
			b.strike(w, c, s, held.Key())
			began := time.Now()
			<-ctx.Done()
			if b.swift() {
				assert.LessOrEqual(w, time.Since(began), 100*time.Millisecond)
			}
			cause <- context.Cause(ctx)
			time.Sleep(time.Minute) // it takes its time
			ended = time.Now()
			return nil
		})
		assert.LessOrEqual(w, time.Since(ended), 100*time.Millisecond)
		w.oneCause(b.cause, err)
		assert.ErrorIs(w, err, lock.ErrLost)
		reported := <-cause
		w.oneCause(b.cause, reported)
		assert.ErrorIs(w, reported, lock.ErrLost)
		w.oneCause(b.cause, h.Err())
	})
}

// Hazard U7: a function that ignores its context keeps the lock.
func TestDoDoesNotReleaseBeforeTheFunctionReturned(t *testing.T) {
	inBubble(t, func(w *fixture) {
		ctx, cancel := context.WithTimeout(w.Context(), time.Second)
		defer cancel()
		other := (*acquireCall)(nil)
		s := w.session()
		var ended time.Time
		err := mutex(w.session()).Do(ctx, func(ctx context.Context, h *lock.Held) error {
			other = w.waiting(s)
			<-ctx.Done()
			time.Sleep(5 * time.Minute)
			assert.True(w, other.waits())
			w.held(h)
			ended = time.Now()
			return nil
		})
		require.NoError(w, err, "the function returned nil, and the lock was held until then")
		assert.LessOrEqual(w, time.Since(ended), 100*time.Millisecond)
		w.release(other.won())
	})
}

func TestDoDoesNotCallTheFunctionUnlessHeld(t *testing.T) {
	inBubble(t, func(w *fixture) {
		never := func(context.Context) error { w.Error("called"); return nil }
		s := w.session()
		holder := w.acquire(s)
		ctx, cancel := context.WithTimeout(w.Context(), time.Second)
		defer cancel()
		err := mutex(w.session()).Do(ctx, func(ctx context.Context, _ *lock.Held) error { return never(ctx) })
		assert.ErrorIs(w, err, context.DeadlineExceeded)
		assert.ErrorIs(w, holder.Do(ctx, never), context.DeadlineExceeded, "nor when its context has ended")
		w.released(holder)
		assert.ErrorIs(w, holder.Do(w.Context(), never), lock.ErrReleased)
		w.clear()
	})
}

func TestDoReleasesWhenTheFunctionPanicsOrExits(t *testing.T) {
	inBubble(t, func(w *fixture) {
		m := mutex(w.session())
		assert.PanicsWithValue(w, "ouch", func() {
			_ = m.Do(w.Context(), func(context.Context, *lock.Held) error { panic("ouch") })
		})
		assert.Empty(w, w.keys())
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = m.Do(w.Context(), func(context.Context, *lock.Held) error { runtime.Goexit(); return nil })
			w.Error("it went on")
		}()
		<-done
		assert.Empty(w, w.keys())
		w.clear()
	})
}

func TestDoReportsTheFunctionsErrorTheReleasesOrBoth(t *testing.T) {
	inBubble(t, func(w *fixture) {
		failure := errors.New("work failed")
		s := w.session()
		err := mutex(s).Do(w.Context(), func(context.Context, *lock.Held) error { return failure })
		assert.ErrorIs(w, err, failure)
		assert.NotErrorIs(w, err, lock.ErrLost)
		err = mutex(s).Do(w.Context(), func(_ context.Context, h *lock.Held) error {
			w.f.Delete(h.Key())
			return failure
		})
		assert.ErrorIs(w, err, failure)
		assert.ErrorIs(w, err, lock.ErrLost)
		w.oneCause(lock.ErrKeyDeleted, err)
		assert.NotContains(w, err.Error(), "\n")
		w.clear()
	})
}

// If the cluster is silent and ctx has ended, Do returns within 100 ms of the function's return,
// and the release continues in the background.
func TestDoReturnsSoonAfterTheFunctionEvenIfTheClusterIsSilent(t *testing.T) {
	inBubble(t, func(w *fixture) {
		ctx, cancel := context.WithCancel(w.Context())
		var ended time.Time
		err := mutex(w.session()).Do(ctx, func(context.Context, *lock.Held) error {
			w.f.BlackHole()
			cancel()
			ended = time.Now()
			return nil
		})
		assert.LessOrEqual(w, time.Since(ended), 100*time.Millisecond)
		assert.ErrorIs(w, err, kv.ErrUnknown)
		assert.NotErrorIs(w, err, lock.ErrLost)
		time.Sleep(time.Second)
		w.f.Heal()
		w.clear()
	})
}

// Acquire can have a shorter limit than the work.
func TestAcquireWithATimeoutThenDoWithTheOuterContext(t *testing.T) {
	inBubble(t, func(w *fixture) {
		ctx, cancel := context.WithTimeout(w.Context(), time.Second)
		h, err := mutex(w.session()).Acquire(ctx)
		cancel()
		require.NoError(w, err)
		require.NoError(w, h.Do(w.Context(), func(ctx context.Context) error {
			time.Sleep(time.Hour)
			assert.NoError(w, ctx.Err())
			return h.Err()
		}))
		w.clear()
	})
}

// Hazard S10: the context of an Acquire bounds only that call.
func TestTheEndOfAcquiresContextEndsNothing(t *testing.T) {
	inBubble(t, func(w *fixture) {
		ctx, cancel := context.WithCancel(context.WithValue(w.Context(), valueKey{}, "v"))
		h, err := mutex(w.session()).Acquire(ctx)
		require.NoError(w, err)
		cancel()
		time.Sleep(time.Hour)
		w.held(h)
		assert.Equal(w, "v", h.Context().Value(valueKey{}))
		w.release(h)
	})
}

// T3: Do compares the clock when the function returns.
func TestDoAfterAnExpiryReportsIt(t *testing.T) {
	inBubble(t, func(w *fixture) {
		err := mutex(w.session()).Do(w.Context(), func(ctx context.Context, h *lock.Held) error {
			w.f.BlackHole()
			<-ctx.Done()
			w.oneCause(lease.ErrExpired, context.Cause(ctx))
			return nil
		})
		w.oneCause(lease.ErrExpired, err)
		assert.ErrorIs(w, err, lock.ErrLost)
		w.f.Heal()
		time.Sleep(20 * time.Second)
		w.clear()
	})
}

// Two goroutines may use one Held: each Do's work is cancelled at loss.
func TestEveryDoOfOneHeldLearnsOfTheLoss(t *testing.T) {
	inBubble(t, func(w *fixture) {
		h := w.acquire(w.session())
		errs := make(chan error, 3)
		for range cap(errs) {
			go func() {
				errs <- h.Do(w.Context(), func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) })
			}()
		}
		time.Sleep(time.Second)
		w.f.Delete(h.Key())
		for range cap(errs) {
			w.oneCause(lock.ErrKeyDeleted, <-errs)
		}
		synctest.Wait()
		w.clear()
	})
}

// A lock touches no other keys than its own.
func TestALockTouchesNoKeysButItsOwn(t *testing.T) {
	inBubble(t, func(w *fixture) {
		s := w.session()
		before := len(w.f.History())
		h := w.acquire(s)
		w.release(h)
		changes := w.f.History()[before:]
		assert.Len(w, changes, 2)
		for _, ch := range changes {
			assert.Equal(w, h.Key(), ch.Key)
		}
	})
}
