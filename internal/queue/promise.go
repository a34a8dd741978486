package queue

import (
	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/internal/queue/state"
)

// Promise records that somebody outside this process may believe, up to until, that the lock is
// held. Before until the key is not deleted and the lease not revoked, whatever ends the lock or
// its session, except by Release (rule V4). If it is not held, Promise returns why, and nothing was
// promised.
func (a *Acquisition) Promise(until clock.Instant) error {
	if err := a.Err(); err != nil {
		return err
	}
	if err := a.s.Promise(&a.entry, until); err != nil {
		return a.Err()
	}
	return a.Err() // it may have ended before that was recorded
}

// Retract withdraws what was promised: nobody outside this process believes any more that the lock
// is held. Nothing may be promised afterwards.
func (a *Acquisition) Retract() { a.s.Retract(&a.entry) }

// Until returns the first instant at which it is no longer held unless the session is renewed, or
// at which Limits end it, whichever is earlier. It returns the zero Instant once it has ended.
func (a *Acquisition) Until() clock.Instant {
	if a.Err() != nil {
		return clock.Instant{}
	}
	until := a.s.Until()
	if b := a.entry.Bound(); b != nil {
		if end := b.Ends(); end.Before(until) {
			return end
		}
	}
	return until
}

// Forfeit ends a hold as Limits.Max does, with cause: the lock is lost, and its key is deleted
// in the background, after the lock-delay. It does nothing once the acquisition has ended.
func (a *Acquisition) Forfeit(cause error) {
	if a.Err() == nil {
		a.apply(state.HoldExpired{}, cause)
	}
}
