package queue

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/internal/queue/state"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/lease"
)

// waitedFor is a context that never ends, and counts what waits for its end.
type waitedFor struct {
	context.Context
	done chan struct{}
	n    atomic.Int64
}

func (h *waitedFor) Done() <-chan struct{} { return h.done }

func (h *waitedFor) AfterFunc(func()) func() bool {
	h.n.Add(1)
	return func() bool { h.n.Add(-1); return true }
}

// A program's context may live as long as the program, and serve a million calls.
func TestNoCallLeavesAnythingOnItsContext(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 1}, func(w *fixture) {
		s := w.session()
		ctx := &waitedFor{Context: w.Context(), done: make(chan struct{})}
		c, err := Acquire(ctx, s, Request{}, w.queue())
		require.NoError(w, err)
		assert.Zero(w, ctx.n.Load(), "won")
		_, err = Acquire(ctx, s, Request{Try: true}, w.queue())
		require.ErrorIs(w, err, ErrBusy)
		assert.Zero(w, ctx.n.Load(), "failed")
		a := w.acquiring(ctx, s, Request{})
		assert.Equal(w, int64(1), ctx.n.Load(), "waits")
		require.NoError(w, c.Release(ctx, errGivenBack))
		a.won()
		assert.Zero(w, ctx.n.Load(), "released, and won")
		require.NoError(w, s.Close(ctx))
		assert.Zero(w, ctx.n.Load(), "closed")
	})
}

// slow is a context whose deadline has passed and whose timer has not run, as in a process that
// continues after a pause.
type slow struct {
	context.Context
	end time.Time
}

func (s slow) Deadline() (time.Time, bool) { return s.end, true }

// A handoff needs no request, so no request checks the deadline.
func TestAHandoffAfterTheContextsDeadlineIsNotHeldThoughNoTimerHasRun(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
		holder, waiting := w.queueUp(1)
		s := w.session()
		late := w.acquiring(slow{w.Context(), time.Now().Add(time.Second)}, s, takingHandoffs(s))
		time.Sleep(2 * time.Second)
		require.False(w, isClosed(late.done))
		w.release(holder)
		w.release(waiting[0].won()) // it knows who is behind it
		assert.ErrorIs(w, late.failed(), context.DeadlineExceeded)
		w.clear()
	})
}

func TestAFunctionIsNotCalledAfterTheContextsDeadlineThoughNoTimerHasRun(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
		err := w.acquire(w.session()).Do(slow{w.Context(), time.Now()}, errGivenBack, func(context.Context) error {
			assert.Fail(w, "called")
			return nil
		})
		assert.ErrorIs(w, err, context.DeadlineExceeded)
		w.clear()
	})
}

// T3: the machine sleeps past the deadline while the answer that shows who owns is on its way. No
// timer has run since, so only a reading of the clock after that answer can notice it.
// rule: T3
func TestWhatIsShownAfterASuspendPastTheDeadlineIsNotHeld(t *testing.T) {
	for name, test := range map[string]struct {
		answer request
		run    func(w *fixture, begin func())
	}{
		"an enqueue": {isEnqueue, func(w *fixture, begin func()) {
			s := w.session()
			begin()
			w.expired(w.acquiring(w.Context(), s, Request{}).failed())
		}},
		"a query": {isQuery, func(w *fixture, begin func()) {
			holder := w.acquire(w.session())
			a := w.waiting(w.session())
			begin()
			w.release(holder)
			w.expired(a.failed())
		}},
		"a resumption": {isResume, func(w *fixture, begin func()) {
			s := w.session()
			c := w.acquire(s)
			next := w.successor(s)
			begin()
			r, err := Resume(w.Context(), next, []string{c.Key()}, c.Token(), Limits{}, w.queue())
			assert.Nil(w, r)
			w.expired(err)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Cleanup(func() { clock.SetSource(nil) })
			inBubble(t, etcdfake.Options{}, func(w *fixture) {
				test.run(w, func() {
					hit := w.f.Inject(test.answer.rule(etcdfake.Rule{HoldAnswer: time.Second, Times: 1}))
					time.AfterFunc(500*time.Millisecond, func() {
						assert.Equal(w, 1, hit.Hits())
						clock.SetSource(func(time.Time) time.Duration { return time.Hour })
					})
				})
			})
		})
	}
}

// T3: a machine that sleeps past the deadline in the instant of the win has won nothing.
// rule: T3
func TestAnEndBetweenTheClockAndTheWinIsSeen(t *testing.T) {
	t.Cleanup(func() { clock.SetSource(nil) })
	inBubble(t, etcdfake.Options{}, func(w *fixture) {
		a := w.fresh(w.Context(), w.session(), state.Options{}, w.queue())
		var slept atomic.Bool
		clock.SetSource(func(time.Time) time.Duration {
			if a.mu.TryLock() { // otherwise it is being stepped
				defer a.mu.Unlock()
				if a.entry.Phase == state.Held {
					slept.Store(true)
				}
			}
			if slept.Load() {
				return time.Hour
			}
			return 0
		})
		err := a.acquire(w.Context(), Request{})
		require.Error(w, err)
		w.expired(a.gaveUp(err))
	})
}

// expired asserts that err says that the session has expired, and not that a lock was lost.
func (w *fixture) expired(err error) {
	w.Helper()
	w.oneCause(lease.ErrExpired, err)
	assert.NotErrorIs(w, err, ErrLost)
}
