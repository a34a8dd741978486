package queue

import (
	"context"

	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/internal/queue/state"
	"github.com/pawl-locks/pawl/internal/session"
)

// Promise says that somebody outside this process may believe until then that it is held:
// before, neither its key is deleted nor its lease revoked, whatever ends it or its
// session, except by Release (rule V4). The error says why it is not held: then nothing
// was promised.
func (a *Acquisition) Promise(until clock.Instant) error {
	if err := a.Err(); err != nil {
		return err
	}
	if err := a.s.Promise(until); err != nil {
		return a.Err()
	}
	a.mu.Lock()
	if a.promised.Before(until) {
		a.promised = until
	}
	a.mu.Unlock()
	return a.Err() // it may have ended before it was noted
}

// awaitPromise waits until what was promised has passed; false: ctx has ended before.
func (a *Acquisition) awaitPromise(ctx context.Context) bool {
	a.mu.Lock()
	until := a.promised
	a.mu.Unlock()
	return session.AwaitInstant(ctx, until)
}

// Until is the first instant at which it is not held unless the session is renewed, or
// at which Limits.Max ends it; the zero Instant once it has ended.
func (a *Acquisition) Until() clock.Instant {
	if a.Err() != nil {
		return clock.Instant{}
	}
	until := a.s.Until()
	if end := a.holdEnd.Load(); end != nil && end.at.Before(until) {
		return end.at
	}
	return until
}

// Forfeit ends a hold as Limits.Max does, with cause: it is lost, and its key is deleted
// in the background in a way that shows successors that it was not released. It does
// nothing once it has ended.
func (a *Acquisition) Forfeit(cause error) {
	if a.Err() == nil {
		a.apply(state.HoldOver{}, cause)
	}
}
