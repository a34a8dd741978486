package queue

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
)

// hooks is a context that never ends, and counts what waits for that.
type hooks struct {
	context.Context
	done chan struct{}
	n    atomic.Int64
}

func (h *hooks) Done() <-chan struct{} { return h.done }

func (h *hooks) AfterFunc(func()) func() bool {
	h.n.Add(1)
	return func() bool { h.n.Add(-1); return true }
}

// A program's context may live as long as it does, and have a million calls.
func TestNoCallLeavesAnythingOnItsContext(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 1}, func(w *fixture) {
		s := w.session()
		ctx := &hooks{Context: w.Context(), done: make(chan struct{})}
		c, err := Acquire(ctx, s, w.queue(), Request{})
		require.NoError(w, err)
		assert.Zero(w, ctx.n.Load(), "won")
		_, err = Acquire(ctx, s, w.queue(), Request{Try: true})
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

// slow is a context whose deadline passes and whose timer does not run, as in a process
// that goes on after a pause.
type slow struct {
	context.Context
	end time.Time
}

func (s slow) Deadline() (time.Time, bool) { return s.end, true }

// A handoff needs no request, which would look at the deadline.
func TestAHandoffAfterTheContextsDeadlineIsNotHeldThoughNoTimerHasRun(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
		holder, waiting := w.inTurn(1)
		s := w.session()
		late := w.acquiring(slow{w.Context(), time.Now().Add(time.Second)}, s, takingHandoffs(s))
		time.Sleep(2 * time.Second)
		require.False(w, isClosed(late.done))
		w.release(holder)
		w.release(waiting[0].won()) // which knows who is behind it
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
