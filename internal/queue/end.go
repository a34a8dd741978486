package queue

import (
	"context"
	"fmt"

	"github.com/pawl-locks/pawl/internal/queue/state"
)

// An ending says why an acquisition has ended.
type ending struct {
	err      error
	lost     bool // it was held until then; err matches ErrLost
	released bool
}

// endsAs returns the ending for an event's effects. why is its cause, unless the effects say it.
func (a *Acquisition) endsAs(fx state.Effects, why error) *ending {
	switch {
	case fx.End == state.GivenBack:
		return &ending{err: why, released: true}
	case fx.End == state.KeyDeleted && why == nil:
		if why = ErrKeyDeleted; a.isSet() {
			why = fmt.Errorf("%w: %s", ErrKeyDeleted, a.of(fx.Own))
		}
	case fx.End == state.KeyOverwritten:
		why = fmt.Errorf("%w: %s at revision %d", ErrKeyOverwritten, a.of(fx.Own), fx.At)
	case fx.End == state.GivenUp:
		why = context.Canceled // no caller has this acquisition
	}
	if fx.Held {
		why = &loss{why}
	}
	return &ending{err: why, lost: fx.Held}
}

// End implements session.Dependent. It is called in the step that ends the session.
func (a *Acquisition) End(cause error) {
	if fx := a.s.Step(&a.entry, state.EndOfSession{}); fx.End != state.Alive {
		a.ended.Store(a.endsAs(fx, cause))
	}
}

// Ended implements session.Dependent. It carries out what is left of End.
func (a *Acquisition) Ended() {
	a.mu.Lock()
	did := a.leaves(state.Effects{End: state.SessionEnded, Wake: true})
	a.mu.Unlock()
	a.carryOut(did)
}

// carryEnd carries out an end of which the callers know: it reports it to the log and the observer, and cleans up at
// the server.
func (a *Acquisition) carryEnd(fx state.Effects, e *ending) {
	a.notifyLoss(e)
	if fx.Rest {
		a.leaveRest()
	}
	switch fx.End {
	case state.KeyDeleted:
		a.s.RenewNow() // its lease may be gone too
	case state.KeyOverwritten:
		if fx.Verdict != state.Lost { // otherwise a release has deleted it
			key := state.Key{Name: a.owned()[fx.Own], Create: a.own().Create}
			a.s.Host().Cleanup.Go("overwritten key "+key.Name, func(ctx context.Context) { a.removeOverwritten(ctx, key) })
		}
	case state.HeldTooLong:
		a.s.Host().Cleanup.Go("key "+a.Key()+", held for too long", a.leaveUnreleased)
	}
}
