package queue

import (
	"context"
	"fmt"

	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/internal/queue/state"
	"github.com/pawl-locks/pawl/internal/session"
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

// End implements session.Dependent. It is called when the session has ended.
func (a *Acquisition) End(cause error) { a.apply(state.EndOfSession{}, cause) }

// carryEnd carries out an end: first the notifications, then the cleanup at the server.
func (a *Acquisition) carryEnd(fx state.Effects, e *ending) {
	var delayed clock.Instant
	if fx.Held && fx.Verdict != state.Lost && (fx.Rest || fx.End == state.KeyOverwritten) {
		delayed = a.delayed()
	}
	a.announce(e)
	if fx.Rest {
		a.leaveRest(delayed)
	}
	switch fx.End {
	case state.KeyDeleted:
		if !fx.Rest && !fx.Remove {
			a.s.GoneElsewhere(a.n)
		}
		a.s.RenewNow() // its lease may be gone too
	case state.KeyOverwritten:
		if fx.Verdict != state.Lost { // otherwise a release has deleted it
			a.reopen(delayed)
			key := state.Key{Name: a.owned()[fx.Own], Create: a.own().Create}
			a.s.Host().Cleanup.Go("overwritten key "+key.Name, func(ctx context.Context) { a.removeOverwritten(ctx, key, fx.Held, delayed) })
		}
	case state.HeldTooLong:
		a.s.Learn(a.n, session.Unreleased)
		a.s.Host().Cleanup.Go("key "+a.Key()+", held for too long", a.leaveOverheld)
	}
}

// delayed returns until when the lock-delay keeps its keys after a hold that ends now, without its
// Release. It counts from the end of what was promised if that is later (rules LD2, LD3). It is
// zero if there is no lock-delay.
func (a *Acquisition) delayed() clock.Instant {
	d := a.s.LockDelay()
	if d == 0 {
		return clock.Instant{}
	}
	from := clock.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	if from.Before(a.promised) {
		from = a.promised
	}
	return from.Add(d)
}

// reopen records that its keys have to be removed, but not before delayed.
func (a *Acquisition) reopen(delayed clock.Instant) {
	if delayed.IsZero() {
		a.s.Learn(a.n, session.Unwanted)
	} else {
		a.s.Learn(a.n, session.Unreleased)
	}
}

// awaitWork waits until no work that may rest on it is left. It returns false if ctx ends first.
func (a *Acquisition) awaitWork(ctx context.Context) bool {
	if a.work != nil {
		return a.work.Await(ctx)
	}
	return a.s.AwaitDeferred(ctx)
}

// leaveOverheld has the key deleted after it was held for too long. It first waits for work that
// may rest on it, for promises, and for the lock-delay.
func (a *Acquisition) leaveOverheld(ctx context.Context) {
	if a.awaitWork(ctx) && a.awaitPromise(ctx) {
		until, _ := a.keeps()
		a.s.LeaveAt(a.n, until)
	}
}

// announce does what rule H1 asks for once the end is marked. It cancels contexts, closes channels,
// and drops the acquisition's registration and watches, in this order.
func (a *Acquisition) announce(e *ending) {
	a.callers.notify(e)
	a.s.Drop(&a.hook)
	a.mu.Lock()
	unused := a.watches.take(state.Effects{Unfollow: true, Unwatch: true})
	if a.wanted != nil {
		unused = append(unused, a.wanted.take()...)
	}
	a.mu.Unlock()
	cancel(unused)
	a.notifyLoss(e)
}
