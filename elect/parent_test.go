package elect_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-locks/pawl/elect"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/lease"
)

// A stillContext is a caller's context whose Value does not return until what still has is closed.
type stillContext struct {
	context.Context
	still atomic.Pointer[chan struct{}]
}

func (c *stillContext) Value(key any) any {
	if still := c.still.Load(); still != nil {
		<-*still
	}
	return c.Context.Value(key)
}

// rule: T6
func TestATermEndsAtItsDeadlineWhileRunsContextStandsStill(t *testing.T) {
	for _, jeopardy := range []bool{false, true} {
		inBubble(t, func(w *fixture) {
			ctx, cancel := context.WithCancel(w.ctx)
			defer cancel()
			parent := &stillContext{Context: ctx}
			o := quick(nil)
			o.StopInJeopardy = jeopardy
			terms := 0
			err := elect.Run(parent, w.client(), "e", o, func(ctx context.Context, tm *elect.Term) error {
				if terms++; terms == 2 {
					return nil
				}
				lost := tm.Done()
				w.BlackHole()
				time.Sleep(time.Second) // what is under way has asked the context before
				deadline, still := tm.Deadline(), make(chan struct{})
				parent.still.Store(&still)
				defer close(still)
				<-ctx.Done()
				assert.False(t, time.Now().After(deadline))
				select {
				case <-lost:
					assert.Equal(t, deadline, time.Now())
				case <-time.After(time.Minute):
					assert.Fail(t, "the term does not end")
				}
				assert.ErrorIs(t, tm.Err(), lease.ErrExpired)
				w.Heal()
				return nil
			})
			assert.NoError(t, err)
		})
	}
}
