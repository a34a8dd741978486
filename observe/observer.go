package observe

import "context"

// An Observer is called with events. Observe should return quickly; it is called from several
// goroutines at once.
//
// ctx carries the values of the call that caused the event. For an acquisition, campaign or
// takeover, all events carry those of Acquire, Campaign or Resume. It does not end with that call's
// context, and is context.Background for events that no call caused.
type Observer interface {
	Observe(ctx context.Context, ev Event)
}

// Func is a function as an Observer.
type Func func(ctx context.Context, ev Event)

// Observe implements Observer.
func (f Func) Observe(ctx context.Context, ev Event) { f(ctx, ev) }

// All is an Observer that calls each of observers, in their order, except nil ones. If one panics,
// those after it miss that event.
func All(observers ...Observer) Observer {
	var all several
	for _, o := range observers {
		if o != nil {
			all = append(all, o)
		}
	}
	return all
}

type several []Observer

func (s several) Observe(ctx context.Context, ev Event) {
	for _, o := range s {
		o.Observe(ctx, ev)
	}
}

// An Event is one of the structs of this package, as a value. Later versions may add events and
// fields, so a type switch should ignore those that it does not know.
type Event interface{ event() }

func (SessionGranted) event()    {}
func (SessionRenewed) event()    {}
func (SessionHedged) event()     {}
func (SessionInJeopardy) event() {}
func (SessionLost) event()       {}
func (SessionClosed) event()     {}
func (Reclaimed) event()         {}

func (LockEnqueued) event() {}
func (LockAcquired) event() {}
func (LockGaveUp) event()   {}
func (LockReleased) event() {}
func (LockLost) event()     {}
func (Progressed) event()   {}
func (JobRan) event()       {}

func (CampaignEnqueued) event() {}
func (CampaignGaveUp) event()   {}
func (TermElected) event()      {}
func (TermProclaimed) event()   {}
func (TermEnded) event()        {}

func (ShardHeld) event()     {}
func (ShardEnded) event()    {}
func (ShardsCounted) event() {}
func (ShardsPlanned) event() {}

func (MemberSwitched) event() {}
func (MemberServes) event()   {}
func (WriteFenced) event()    {}
