package state

// An Outcome is what is known of a request that was sent.
type Outcome uint8

const (
	Applied    Outcome = iota
	Refused            // answered: its comparisons failed
	NotApplied         // failed: it changed nothing, and never will
	Unknown            // failed: it may have been applied, or may still be
)

// A Verdict is the next step of a release or a rewrite.
type Verdict uint8

const (
	Proceed Verdict = iota // nothing was decided
	Finished
	Lost    // it was no longer held
	Bare    // delete again, without a handoff, whatever the modification revision
	Explain // read why there was nothing to delete
	Again   // write again
	Stop    // return the error: the request was not carried out
	Doubt   // return the error: whether the request was carried out is not known
)

// absence is the first evidence that its own key no longer exists.
type absence uint8

const (
	present absence = iota
	// mayBeOurs: a delete may have been applied whose answer was lost.
	mayBeOurs
	// missed: it did not exist, and no delete of ours can have been applied.
	missed
)

// deletion is the state of a release.
type deletion struct {
	sent    bool // the first request was sent: later ones are bare
	absence absence
	decided bool
}

// Released says that the caller releases it. Later says that its own key has to stay for a
// while and is then deleted in the background: the release is decided at once.
type Released struct{ Later bool }

func (ev Released) apply(a *Machine) Effects {
	if a.phase != Held {
		return Effects{}
	}
	fx := a.ends(GivenBack)
	if ev.Later {
		a.phase, a.deletion.decided = Undoing, true
	}
	return fx
}

// DeleteSent says that a delete is about to be sent. The first one carries a handoff if a
// waiter is known to come next. Unless a value is in doubt, it also compares the modification
// revision: if it is applied nobody else has written to the key, so that its answer need not
// show the key, which after a handoff contains a list of waiters.
//
// The first one may be refused although its own key exists. Therefore its refusal reads the
// key.
type DeleteSent struct{}

func (DeleteSent) apply(a *Machine) Effects {
	first := !a.deletion.sent
	a.deletion.sent = true
	return Effects{Handoff: first && !a.successors.Empty(), Exact: first && !a.doubt.any()}
}

// DeleteAnswered is the result of a delete.
type DeleteAnswered struct {
	Outcome  Outcome
	Handoff  bool       // it carried a handoff
	There    bool       // it was refused, and its answer shows that its own key still exists
	Repeated bool       // its sender repeats it after any failure
	Ended    bool       // the caller no longer waits
	Was      OwnChanged // if it was applied and did not compare the modification revision: its own key as it was deleted; of a set, one that was not known to be ours, if any

	// Partly says, of a refused delete of a set, that some of its own keys existed and are
	// deleted now, and that the one at index Missing did not. An earlier delete of ours is no
	// explanation, because it would have deleted all.
	Partly  bool
	Missing int

	// Doubtful says, of an applied delete of a set, that some of its own keys did not exist, and
	// that for each of those an earlier delete of ours is an explanation.
	Doubtful bool
}

func (ev DeleteAnswered) apply(a *Machine) Effects {
	if a.phase != Releasing {
		return Effects{Verdict: Stop}
	}
	v := afterDelete(ev)
	switch {
	case ev.Outcome == Refused && ev.Partly:
		fx := a.decided(KeyDeleted)
		fx.Own = ev.Missing
		return fx
	case v == Finished && !a.knows(ev.Was):
		fx := a.decided(KeyOverwritten)
		fx.At, fx.Own = ev.Was.Mod, ev.Was.Index
		return fx
	case v == Finished && ev.Doubtful:
		return Effects{Verdict: Explain}
	case v == Finished:
		return a.decided(GivenBack)
	case ev.Outcome == Unknown && a.deletion.absence == present:
		a.deletion.absence = mayBeOurs
	case a.deletion.absence == present && v == Explain:
		a.deletion.absence = missed
	}
	return Effects{Verdict: v}
}

// afterDelete is the next step after a delete.
func afterDelete(ev DeleteAnswered) Verdict {
	switch {
	case ev.Outcome == Applied:
		return Finished
	case ev.Outcome == Refused && ev.There, ev.Outcome == NotApplied && ev.Handoff && !ev.Ended:
		return Bare // the server may accept the delete without the handoff or the comparison
	case ev.Outcome == Refused:
		return Explain
	case ev.Outcome == Unknown && !ev.Repeated && !ev.Ended:
		return Bare
	case ev.Outcome == Unknown:
		return Doubt
	}
	return Stop
}

// Explained is what a read showed after a delete had not found its own key as it was acquired.
// No key with the same name can be put meanwhile (rule A1).
type Explained struct {
	SessionEnded bool // the session key has changed
	There        bool // a key with its own key's name exists
}

func (ev Explained) apply(a *Machine) Effects {
	switch {
	case a.phase != Releasing:
		return Effects{Verdict: Stop}
	case ev.SessionEnded:
		return a.decided(SessionEnded)
	case a.deletion.absence == mayBeOurs && !ev.There:
		return a.decided(GivenBack) // deleted by the delete whose answer was lost
	}
	return a.decided(KeyDeleted)
}

// decided ends a release: it was released, or had been lost before.
func (a *Machine) decided(end End) Effects {
	a.phase, a.end, a.deletion.decided = Done, end, true
	if end == GivenBack {
		return Effects{Verdict: Finished}
	}
	return Effects{Verdict: Lost, End: end, Held: true}
}
