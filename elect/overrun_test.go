package elect_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pawl-locks/pawl/elect"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/lease"
)

// StopInJeopardy leaves lead a third of the validity to stop in. lead's context ends at that
// instant and not before, and the term still lasts.
func TestLeadsContextEndsInJeopardyWhileTheTermLasts(t *testing.T) {
	inBubble(t, func(w *fixture) {
		var log []elect.Event
		o := quick(&log)
		o.StopInJeopardy = true
		third := (o.Session.TTL - o.Session.TTL/6) / 3
		terms := 0
		err := elect.Run(w.ctx, w.client(), "e", o, func(ctx context.Context, tm *elect.Term) error {
			if terms++; terms == 2 {
				return nil
			}
			time.Sleep(20 * time.Second)
			assert.NoError(t, ctx.Err(), "renewals are confirmed")
			w.BlackHole()
			<-ctx.Done()
			assert.Equal(t, third, time.Until(tm.Deadline()))
			assert.ErrorIs(t, context.Cause(ctx), elect.ErrJeopardy)
			assert.NoError(t, tm.Err(), "the term lasts")
			w.Heal()
			time.Sleep(third / 2) // it stops, in time
			return errors.New("stopped")
		})
		assert.NoError(t, err, "what lead returned in jeopardy is dropped, and Run goes on")
		assert.Equal(t, []elect.Kind{elect.Elected, elect.Resigned, elect.Elected, elect.Resigned}, kinds(log))
		assert.ErrorIs(t, log[1].Err, elect.ErrJeopardy)
		assert.NoError(t, log[3].Err)
	})
}

// A lead that goes on through the jeopardy loses its term like any other.
func TestALeadThatIgnoresTheJeopardyLosesItsTerm(t *testing.T) {
	inBubble(t, func(w *fixture) {
		var log []elect.Event
		o := quick(&log)
		o.StopInJeopardy, o.Overrun = true, time.Hour
		terms := 0
		err := elect.Run(w.ctx, w.client(), "e", o, func(ctx context.Context, tm *elect.Term) error {
			if terms++; terms == 2 {
				return nil
			}
			w.BlackHole()
			<-tm.Done()
			assert.ErrorIs(t, context.Cause(ctx), elect.ErrJeopardy)
			w.Heal()
			return nil
		})
		assert.NoError(t, err)
		assert.Equal(t, []elect.Kind{elect.Elected, elect.Lost, elect.Elected, elect.Resigned}, kinds(log))
		assert.ErrorIs(t, log[1].Err, lease.ErrExpired)
	})
}

// Overrun counts from the end of lead's context, whatever ended it.
func TestOverrunCountsFromTheJeopardy(t *testing.T) {
	inBubble(t, func(w *fixture) {
		o := quick(nil)
		o.StopInJeopardy, o.Overrun = true, 10*time.Second
		terms := 0
		err := elect.Run(w.ctx, w.client(), "e", o, func(ctx context.Context, tm *elect.Term) error {
			if terms++; terms == 2 {
				return nil
			}
			w.BlackHole()
			<-ctx.Done()
			w.Heal()
			began := time.Now()
			<-tm.Done()
			assert.Equal(t, o.Overrun, time.Since(began))
			assert.ErrorIs(t, tm.Err(), elect.ErrOverrun)
			return nil
		})
		assert.NoError(t, err)
	})
}
