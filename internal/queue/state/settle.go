package state

// Begun says that an enqueue is about to be sent, with keys that were never used.
type Begun struct{}

func (Begun) apply(a *Machine) Effects {
	a.late = a.Phase == Enqueuing
	return Effects{}
}

// NotPut says that the enqueue was not applied, and never will be.
type NotPut struct{}

func (NotPut) apply(a *Machine) Effects {
	if a.Phase != Enqueuing || a.Own.Create != 0 {
		return Effects{}
	}
	a.late = false
	return Effects{Vacant: true}
}

// AnswerLost says that an enqueue was sent, and that its answer does not say whether it was
// applied. Answered says that there was an answer, so that no copy can be applied any more.
type AnswerLost struct{ Answered bool }

func (ev AnswerLost) apply(a *Machine) Effects {
	if a.Phase == Enqueuing && a.Own.Create == 0 {
		a.Phase, a.late = Settling, a.late && !ev.Answered
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
	a.late = false
	if ev.Own.Create <= 0 {
		a.Phase = Enqueuing // with another key name
		return Effects{Vacant: true}
	}
	a.Own, a.others, a.Mod, a.Phase = ev.Own, ev.Others, ev.Own.Create, Querying
	if a.End != Alive {
		return Effects{}
	}
	return a.watchOwn(ev.Own.Create + 1)
}
