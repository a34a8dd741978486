package queue

import (
	"fmt"

	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/internal/queue/state"
	"github.com/pawl-locks/pawl/internal/session"
)

// Limits bound a hold. One that lasts longer than Max is lost with ErrMaxHold, one without Progress for Stall
// with ErrStalled.
type Limits = session.Limits

// HoldExpired implements session.Dependent: it compares the clock.
func (a *Acquisition) HoldExpired() { _ = a.Err() }

// overheld reports whether the hold has lasted as long as b allows, and ends it if so.
func (a *Acquisition) overheld(b *session.Bound) bool { return a.endsBy(b, clock.Now()) }

// endsBy reports whether the hold has lasted, at now, as long as b allows, and ends it if so.
func (a *Acquisition) endsBy(b *session.Bound, now clock.Instant) bool {
	past, stalled := b.Past(now)
	switch {
	case !past:
		return false
	case stalled:
		a.apply(state.HoldExpired{}, fmt.Errorf("%w: no progress for %v", ErrStalled, b.Stall))
	default:
		a.apply(state.HoldExpired{}, fmt.Errorf("%w: for %v", ErrMaxHold, b.Max))
	}
	return true
}
