package state

import "errors"

// An End is why an acquisition has ended.
type End uint8

const (
	Alive          End = iota
	SessionEnded       // its session ended; the lease takes the own key along
	KeyDeleted         // its own key is gone, or one of them
	KeyOverwritten     // somebody else wrote to its own key, which is deleted in the background
	GivenUp            // its caller stopped waiting, or may not hold
	GivenBack          // it was held, and is released
	HeldTooLong        // it was held for as long as it may be; the own key is deleted in the background
)

// ends ends the acquisition. The first end stands.
func (a *Acquisition) ends(end End) Effects {
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

// Over says that the session has ended.
type Over struct{}

func (Over) apply(a *Acquisition) Effects { return a.ends(SessionEnded) }

// GaveUp says that the caller stopped waiting, or that it may not hold.
type GaveUp struct{}

func (GaveUp) apply(a *Acquisition) Effects { return a.ends(GivenUp) }

// HoldOver says that it was held for as long as it may be.
type HoldOver struct{}

func (HoldOver) apply(a *Acquisition) Effects {
	if a.phase != Held {
		return Effects{}
	}
	return a.ends(HeldTooLong)
}

// Removed says that no own key is there, and none will be.
type Removed struct{}

func (Removed) apply(a *Acquisition) Effects {
	if a.phase == Undoing {
		a.phase = Done
	}
	return Effects{}
}

// ErrTokenFloor says that a token would not exceed the floor that was configured:
// storage may have seen a greater one.
var ErrTokenFloor = errors.New("fencing token would not exceed the configured floor")
