package queue

import (
	"context"
	"sync/atomic"
	"testing"

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
	inBubble(t, etcdfake.Options{Members: 1}, func(w *world) {
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
