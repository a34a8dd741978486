package queue

import (
	"context"

	"github.com/pawl-locks/pawl/internal/queue/state"
	"github.com/pawl-locks/pawl/internal/session"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

// Some tests make an acquisition step by step, by these functions.

// fresh returns an acquisition that has not begun.
func (w *fixture) fresh(ctx context.Context, s *session.Session, o state.Options, queues ...Queue) *Acquisition {
	a := newAcquisition(ctx, s, queues)
	a.entry.Machine = state.Begin(o)
	return a
}

// began returns an acquisition that has begun and whose enqueue is not sent.
func (w *fixture) began(s *session.Session, q Queue) *Acquisition {
	a := w.fresh(w.Context(), s, state.Options{}, q)
	_, err := a.begins()
	require.NoError(w, err)
	return a
}

// takes gives ev to the state, as apply does, but carries nothing out.
func (c *Acquisition) takes(ev state.Event) state.Effects {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.s.Step(&c.entry, ev)
}

// isAbsent says that the keys of a do not exist and never will.
func isAbsent(a *Acquisition) { a.takes(state.NotPut{}) }

// isUnwanted says that nobody wants a any more.
func isUnwanted(a *Acquisition) { a.takes(state.GaveUp{}) }

// now returns a copy of the state.
func (c *Acquisition) now() *state.Machine {
	return ask(c, func(e *session.Entry) *state.Machine { m := e.Machine; return &m })
}

// isAlone reports whether its reads may leave out the session's keys.
func (c *Acquisition) isAlone() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.isOrdinary() && c.s.Alone(&c.entry, c.queues[0].Prefix)
}
