package state

import "errors"

// An End says why an acquisition has ended.
type End uint8

const (
	Alive          End = iota
	SessionEnded       // its session ended; its key ends with the lease
	KeyDeleted         // one of its keys was deleted
	KeyOverwritten     // somebody else wrote to one of its keys, which is deleted in the background
	GivenUp            // its caller stopped waiting, or must not hold it
	GivenBack          // it was held, and was released
	HeldTooLong        // it was held for as long as allowed; its key is deleted in the background
)

// ends ends the acquisition. Later ends change nothing.
func (a *Machine) ends(end End) Effects {
	if a.End != Alive {
		return Effects{}
	}
	a.End = end
	fx := Effects{End: end, Held: a.Phase == Held, Wake: a.Phase < Held}
	switch {
	case end == SessionEnded: // the phase goes on to say what may be left at the server
	case end == GivenBack:
		a.Phase = Releasing
	case a.set() && (end == KeyDeleted || end == KeyOverwritten):
		a.Phase = Undoing
		fx.Rest, fx.Remove = fx.Held, !fx.Held
	case end == KeyOverwritten, end == HeldTooLong:
		a.Phase, fx.Remove = Undoing, a.Trying()
	case end == GivenUp && (a.Own.Create != 0 || a.Phase == Settling):
		a.Phase, fx.Remove = Undoing, true
	default:
		a.Phase = Done
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
	if a.Phase != Held {
		return Effects{}
	}
	return a.ends(HeldTooLong) // unless its session has ended
}

// Removed says that none of its keys exists or will exist.
type Removed struct{}

func (Removed) apply(a *Machine) Effects {
	if a.Phase == Undoing {
		a.Phase = Done
	}
	return Effects{}
}

// Left is the state of an acquisition that another process left to be removed. lost says that it was held,
// and not released.
func Left(lost bool) Machine {
	if lost {
		return Machine{Phase: Undoing, End: HeldTooLong}
	}
	return Machine{Phase: Undoing, End: GivenUp}
}

// ErrTokenFloor says that a token is not above the configured floor, so that storage may have
// seen a greater one.
var ErrTokenFloor = errors.New("fencing token would not exceed the configured floor")
