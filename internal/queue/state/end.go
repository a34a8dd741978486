package state

import "errors"

// An End is why an acquisition has ended.
type End uint8

const (
	Alive          End = iota
	SessionEnded       // its session ended; its key ends with the lease
	KeyDeleted         // its own key, or one of them, was deleted
	KeyOverwritten     // somebody else wrote to its own key, which is deleted in the background
	GivenUp            // its caller stopped waiting, or must not hold it
	GivenBack          // it was held, and was released
	HeldTooLong        // it was held for as long as allowed; its own key is deleted in the background
)

// ends ends the acquisition. Later ends change nothing.
func (a *Machine) ends(end End) Effects {
	if a.end != Alive {
		return Effects{}
	}
	a.end = end
	fx := Effects{End: end, Held: a.phase == Held, Wake: a.phase < Held}
	switch {
	case end == GivenBack:
		a.phase = Releasing
	case a.set() && (end == KeyDeleted || end == KeyOverwritten):
		a.phase = Undoing
		fx.Rest, fx.Remove = fx.Held, !fx.Held
	case end == KeyOverwritten, end == HeldTooLong:
		a.phase, fx.Remove = Undoing, a.Trying()
	case end == GivenUp && (a.own.Create != 0 || a.phase == Settling):
		a.phase, fx.Remove = Undoing, true
	default:
		a.phase = Done
	}
	return fx
}

// EndOfSession says that the session has ended.
type EndOfSession struct{}

func (EndOfSession) apply(a *Machine) Effects { return a.ends(SessionEnded) }

// GaveUp says that the caller stopped waiting, or must not hold the lock.
type GaveUp struct{}

func (GaveUp) apply(a *Machine) Effects { return a.ends(GivenUp) }

// HoldExpired says that the lock was held for as long as allowed.
type HoldExpired struct{}

func (HoldExpired) apply(a *Machine) Effects {
	if a.phase != Held {
		return Effects{}
	}
	return a.ends(HeldTooLong)
}

// Removed says that none of its own keys exists or will exist.
type Removed struct{}

func (Removed) apply(a *Machine) Effects {
	if a.phase == Undoing {
		a.phase = Done
	}
	return Effects{}
}

// ErrTokenFloor says that a token is not above the configured floor, so that storage may have
// seen a greater one.
var ErrTokenFloor = errors.New("fencing token would not exceed the configured floor")
