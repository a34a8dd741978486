package state

// AnswerLost says that an enqueue was sent, and that its answer does not say whether it was
// applied.
type AnswerLost struct{}

func (AnswerLost) apply(a *Machine) Effects {
	if a.Phase == Enqueuing && a.Own.Create == 0 {
		a.Phase = Settling
	}
	return Effects{}
}

// Settled is the result of settling an enqueue whose answer was lost. If it was applied, Own, with
// Others of a set, was found. If Own.Create is 0, it was not applied and never will be. That one of
// a set's keys is missing is reported as another event, after this one.
type Settled struct {
	Own    Key
	Others []string
}

func (ev Settled) apply(a *Machine) Effects {
	if a.Phase != Settling {
		return Effects{}
	}
	if ev.Own.Create <= 0 {
		a.Phase = Enqueuing // with another key name
		return Effects{}
	}
	a.Own, a.others, a.Mod, a.Phase = ev.Own, ev.Others, ev.Own.Create, Querying
	return a.watchOwn(ev.Own.Create + 1)
}
