package observe

import "context"

// An Observer is called with what happens. Observe is to be quick; it is called
// from several goroutines at once.
//
// ctx carries the values of the call that the event came of: of Acquire, Campaign
// and Resume for all events of what they made. It does not end with that call's, and
// is context.Background for what no call did.
type Observer interface {
	Observe(ctx context.Context, ev Event)
}

// Func is an Observer of one function.
type Func func(ctx context.Context, ev Event)

// Observe implements Observer.
func (f Func) Observe(ctx context.Context, ev Event) { f(ctx, ev) }

// All is an Observer that calls each of observers, in their order. nil ones are
// left out. Where one panics, those after it miss that event.
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

// An Event is one of the structs of this package, as a value. More of them may
// come, and more fields: let a type switch pass over what it does not know.
type Event interface{ event() }

func (SessionGranted) event()    {}
func (SessionRenewed) event()    {}
func (SessionHedged) event()     {}
func (SessionInJeopardy) event() {}
func (SessionLost) event()       {}
func (SessionClosed) event()     {}

func (LockEnqueued) event() {}
func (LockAcquired) event() {}
func (LockGaveUp) event()   {}
func (LockReleased) event() {}
func (LockLost) event()     {}

func (CampaignEnqueued) event() {}
func (CampaignGaveUp) event()   {}
func (TermElected) event()      {}
func (TermProclaimed) event()   {}
func (TermEnded) event()        {}

func (MemberSwitched) event() {}
func (MemberServes) event()   {}
func (WriteFenced) event()    {}
