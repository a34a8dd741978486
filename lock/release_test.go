package lock_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/kv"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
)

func over(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	return ctx
}

// `defer h.Release(ctx)` never strands a lock.
func TestReleaseWithADoneContextStillSends(t *testing.T) {
	inBubble(t, func(w *fixture) {
		h := w.acquire(w.session())
		require.NoError(w, h.Release(over(w.Context())))
		w.released(h)
		w.clear()
	})
}

// Rule R2, hazard U4: an unconfirmed release says so in time and continues in the background. Once
// it is decided, every call gives the same answer.
// rule: R2
func TestReleaseIntoABlackHoleIsUnknownAndDecidedLater(t *testing.T) {
	for name, wait := range map[string]time.Duration{"done": 0, "ends": 300 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *fixture) {
				h := w.acquire(w.session())
				w.f.BlackHole()
				ctx, cancel := context.WithTimeout(w.Context(), wait)
				defer cancel()
				began := time.Now()
				err := h.Release(ctx)
				assert.LessOrEqual(w, time.Since(began), wait+100*time.Millisecond)
				assert.ErrorIs(w, err, kv.ErrUnknown)
				assert.ErrorIs(w, err, context.DeadlineExceeded)
				assert.NotErrorIs(w, err, context.Canceled)
				assert.NotErrorIs(w, err, lock.ErrLost)
				w.pending(h)
				assert.ErrorIs(w, h.Release(over(w.Context())), kv.ErrUnknown, "called again, it tries again")
				time.Sleep(2 * time.Second)
				w.f.Heal()
				time.Sleep(time.Second)
				assert.Empty(w, w.keys(), "in the background")
				before := w.f.Counts()
				assert.NoError(w, h.Release(over(w.Context())))
				assert.Empty(w, w.f.Counts().Since(before).Received["Txn"], "it is decided")
				w.released(h)
				w.clear()
			})
		})
	}
}

// pending asserts what is true while a release is pending.
func (w *fixture) pending(h *lock.Held) {
	w.Helper()
	assert.ErrorIs(w, h.Err(), lock.ErrReleased)
	assert.True(w, isClosed(h.Done()))
	assert.Zero(w, h.Deadline())
}

// If many goroutines release at once, all get the same result, and none takes another's delete for
// a loss.
func TestConcurrentReleasesAllSayNil(t *testing.T) {
	for _, fault := range []etcdfake.Rule{
		{},
		{HoldAnswer: 30 * time.Millisecond, Times: 1},
		{HoldAnswer: 30 * time.Millisecond},
		{Err: status.Error(codes.Unavailable, "gone"), HoldAnswer: 10 * time.Millisecond, Times: 1},
	} {
		inBubble(t, func(w *fixture) {
			h := w.acquire(w.session())
			fault.Op = "release"
			w.f.Inject(fault)
			var all sync.WaitGroup
			for i := range 32 {
				all.Go(func() {
					time.Sleep(time.Duration(i) * time.Millisecond)
					assert.NoError(w, h.Release(w.Context()))
				})
			}
			all.Wait()
			w.released(h)
			w.clear()
		})
	}
}

// A foreign deletion is a loss for all who release at once.
func TestConcurrentReleasesOfALostLockAllReportIt(t *testing.T) {
	inBubble(t, func(w *fixture) {
		h := w.acquire(w.session())
		w.f.Inject(etcdfake.Rule{Op: "release", Delay: 10 * time.Millisecond})
		w.f.Delete(h.Key())
		var all sync.WaitGroup
		for range 32 {
			all.Go(func() { w.oneCause(lock.ErrKeyDeleted, h.Release(w.Context())) })
		}
		all.Wait()
		w.lostBy(lock.ErrKeyDeleted, h)
		w.clear()
	})
}

// Hazards U6, H7: the second Release sends no request, and the Mutex can be locked again.
func TestReleaseTwiceIsOneRequest(t *testing.T) {
	inBubble(t, func(w *fixture) {
		s := w.session()
		h := w.acquire(s)
		w.release(h)
		before := w.f.Counts()
		assert.NoError(w, h.Release(w.Context()))
		assert.Empty(w, w.f.Counts().Since(before).Received["Txn"])
		again := w.acquire(s)
		w.released(h)
		assert.NotEqual(w, h.Key(), again.Key(), "a key name is never used twice (A1)")
		assert.NoError(w, h.Release(w.Context()))
		w.held(again)
		w.release(again)
	})
}

// R1: releases work on a full disk.
// rule: R1
func TestReleaseWorksUnderNoSpace(t *testing.T) {
	inBubble(t, func(w *fixture) {
		h := w.acquire(w.session())
		w.f.SetNoSpace(true)
		w.release(h)
		w.f.SetNoSpace(false)
		w.clear()
	})
}

// Hazard U1: a foreign key of the same name is not deleted.
// rule: R1
func TestReleaseLeavesAnothersKeyAlone(t *testing.T) {
	inBubble(t, func(w *fixture) {
		w.f.Inject(etcdfake.Rule{Method: "Watch", Lose: true})
		h := w.acquire(w.session())
		w.f.Delete(h.Key())
		w.f.Put(h.Key(), "theirs", 0)
		w.oneCause(lock.ErrKeyDeleted, h.Release(w.Context()))
		time.Sleep(time.Minute)
		assert.NotNil(w, w.f.Get(h.Key()))
	})
}

// Hazard U5: a renewal's answer that races with a release revives nothing.
func TestNothingIsRevivedByAReadThatRacesWithTheRelease(t *testing.T) {
	inBubble(t, func(w *fixture) {
		s := w.session()
		h := w.acquire(s)
		w.f.Inject(etcdfake.Rule{Method: "Txn", HoldAnswer: 200 * time.Millisecond, Match: func(q etcdfake.Request) bool {
			return !slices.Contains(q.Ops(), "release")
		}})
		time.Sleep(s.TTL()/4 + 100*time.Millisecond) // a renewal's read is on its way back
		w.release(h)
		time.Sleep(time.Minute)
		w.released(h)
		require.NoError(w, s.Err())
		w.f.LiftAll()
		w.clear()
	})
}

// Hazard U8: closing a session revokes its lease.
func TestClosingTheSessionLeavesNoLease(t *testing.T) {
	inBubble(t, func(w *fixture) {
		s := w.session()
		h := w.acquire(s)
		require.NoError(w, s.Close(w.Context()))
		_, there := w.f.Lease(s.ID())
		assert.False(w, there)
		w.lostBy(lease.ErrClosed, h)
		w.clear()
	})
}

// N6: the process that takes a session over finishes a release that was under way when the session
// was detached.
func TestAReleaseUnderWayAtADetachIsNotForgotten(t *testing.T) {
	inBubble(t, func(w *fixture) {
		s := w.session()
		h := w.acquire(s)
		f := w.f.Inject(etcdfake.Rule{Op: "release", Lose: true})
		ctx, cancel := context.WithCancel(w.Context())
		done := make(chan error, 1)
		go func() { done <- h.Release(ctx) }()
		synctest.Wait()
		handle := s.Detach()
		cancel()
		assert.ErrorIs(w, <-done, kv.ErrUnknown)
		f.Lift()
		next, err := w.spare.NewSession(w.Context(), lease.Options{Resume: handle})
		require.NoError(w, err)
		assert.Empty(w, w.keys())
		require.NoError(w, next.Close(w.Context()))
		w.clear()
	})
}

// Hazard U3: if the members are cut off from each other, a release is not confirmed. Soon after the
// partition ends the next one acquires the lock, although the session lives on.
// rule: R2
func TestAReleaseDuringAPartitionIsMadeGoodWhenItEnds(t *testing.T) {
	inBubble(t, func(w *fixture) {
		s := w.session()
		h := w.acquire(s)
		a := w.waiting(w.session())
		for _, m := range w.f.Members() {
			m.Isolate()
		}
		ctx, cancel := context.WithTimeout(w.Context(), 5*time.Second)
		defer cancel()
		require.ErrorIs(w, h.Release(ctx), kv.ErrUnknown)
		w.pending(h)
		time.Sleep(time.Second)
		w.f.Heal()
		began := time.Now()
		next := a.won()
		assert.LessOrEqual(w, time.Since(began), 5*time.Second)
		assert.NoError(w, h.Release(w.Context()))
		require.NoError(w, s.Err())
		w.release(next)
		w.clear()
	})
}

// Hazard H7: only the Held is lost, and the Mutex acquires the lock again.
func TestAfterALossTheSameMutexTakesTheLockAgain(t *testing.T) {
	inBubble(t, func(w *fixture) {
		m := mutex(w.session())
		var last fencing.Token
		for range 5 {
			h, err := m.Acquire(w.Context())
			require.NoError(w, err)
			w.held(h)
			assert.Greater(w, h.Token(), last)
			last = h.Token()
			w.f.Delete(h.Key())
			<-h.Done()
			w.lostBy(lock.ErrKeyDeleted, h)
		}
		w.clear()
	})
}
