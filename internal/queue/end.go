package queue

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/pawl-locks/pawl/internal/queue/state"
)

// causeWait is how long the cause of a key's deletion may stay undecided. Another watch, or a
// read, shows whether the key alone was deleted or its lease is gone.
const causeWait = 50 * time.Millisecond

// An ending is why an acquisition has ended. The cause may become known later than the end
// itself.
type ending struct {
	a        *Acquisition
	held     bool // it was held: its loss matches ErrLost
	index    int  // the index of the key that caused it, among its own keys
	released bool
	once     sync.Once
	decided  chan struct{} // closed once err is set
	err      error
}

// always is a closed channel.
var always = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// endsAs is the ending for an event's effects. The cause of a release is known at once: it is
// why.
func (a *Acquisition) endsAs(fx state.Effects, why error) *ending {
	if fx.End == state.GivenBack {
		e := a.decided(why, true)
		e.held = true
		return e
	}
	return &ending{a: a, held: fx.Held, index: fx.Own, decided: make(chan struct{})}
}

// decided is an ending whose cause is known from the beginning.
func (a *Acquisition) decided(err error, released bool) *ending {
	e := &ending{a: a, released: released, decided: always, err: err}
	e.once.Do(func() {})
	return e
}

// decide sets the cause, once: later causes are ignored.
func (e *ending) decide(cause error) {
	e.once.Do(func() {
		e.err = cause
		if e.held {
			e.err = &loss{cause}
		}
		close(e.decided)
		e.a.spread(e)
	})
}

func (e *ending) known() bool { return isClosed(e.decided) }

// reason is the cause. If it is undecided, reason waits for it, at most causeWait.
func (e *ending) reason() error {
	if !e.known() {
		t := time.NewTimer(causeWait)
		defer t.Stop()
		select {
		case <-e.decided:
		case <-t.C:
			e.decide(e.a.deletedKey(e.index))
		}
	}
	<-e.decided
	return e.err
}

// End implements session.Dependent. It is called when the session has ended, and also decides
// an end that has no cause yet. The first cause is final.
func (a *Acquisition) End(cause error) {
	a.apply(state.EndOfSession{}, cause)
	a.ended.Load().decide(cause)
}

// carryEnd carries out an end: first the cause and its notifications, then the cleanup at the
// server.
func (a *Acquisition) carryEnd(fx state.Effects, e *ending, why error) {
	switch fx.End {
	case state.GivenBack:
		a.spread(e)
	case state.KeyDeleted:
		if !fx.Rest && !fx.Remove {
			a.s.Vanished(a.n)
		}
		if fx.Rest {
			a.leaveRest()
		}
		if why == nil {
			a.examine(e)
			return
		}
		e.decide(why)
	case state.KeyOverwritten:
		e.decide(&detail{ErrKeyOverwritten, fmt.Sprintf("%s at revision %d", a.of(fx.Own), fx.At)})
		if fx.Rest {
			a.leaveRest()
		}
		if fx.Verdict != state.Lost { // otherwise a release has deleted it
			a.s.Reopen(a.n)
			key := state.Key{Name: a.owned()[fx.Own], Create: a.own().Create}
			a.s.Host().Cleanup.Go("overwritten key "+key.Name, func(ctx context.Context) { a.removeOverwritten(ctx, key) })
		}
	case state.HeldTooLong:
		e.decide(why)
		a.s.Forfeit(a.n)
		a.s.Host().Cleanup.Go("key "+a.Key()+", held for too long", a.leaveOverheld)
	case state.GivenUp:
		e.decide(context.Canceled) // no caller has this acquisition
	case state.SessionEnded:
		e.decide(why)
	}
}

// leaveOverheld has its own key deleted after it was held for too long, with a mark that shows
// successors that it was not released. It waits for work that defers the revocation of the
// lease, and for promises.
func (a *Acquisition) leaveOverheld(ctx context.Context) {
	if a.s.AwaitDeferred(ctx) && a.awaitPromise(ctx) {
		until, _ := a.keeps()
		a.s.LeaveAt(a.n, until)
	}
}

// examine finds the cause of its own key's deletion, by a read of whether the lease is gone
// too.
func (a *Acquisition) examine(e *ending) {
	a.s.ExamineSoon(causeWait, func() { // ends the session, and so decides e, if the session key is gone too
		if err := a.s.Err(); err != nil {
			e.decide(err)
			return
		}
		e.decide(a.deletedKey(e.index))
	})
}

// deletedKey is the cause of an end by the deletion of its own key at index i.
func (a *Acquisition) deletedKey(i int) error {
	if !a.isSet() {
		return ErrKeyDeleted
	}
	return &detail{ErrKeyDeleted, a.of(i)}
}

// spread does what rule H1 asks for after the end is marked, once the cause is known and in
// this order: it cancels contexts, closes channels, and drops the acquisition's registration
// and watches.
func (a *Acquisition) spread(e *ending) {
	a.callers.tell(e)
	a.s.Drop(&a.hook)
	a.takeWatches().cancel()
	a.notifyLoss(e)
}
