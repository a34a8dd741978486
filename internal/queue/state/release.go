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

// absence is the first evidence that its key no longer exists.
type absence uint8

const (
	present absence = iota
	// mayBeOurs means that a delete whose answer was lost may have been applied.
	mayBeOurs
	// missed means that it did not exist, and no delete of ours can have been applied.
	missed
)

// deletion is the state of a release.
type deletion struct {
	sent    bool // the first request was sent; later ones are bare
	absence absence
	untold  bool // the first request was refused, and nothing has shown yet whether its key was there
	left    bool // the server refuses to delete all keys of a set at once, and the background deletes them
	decided bool
}

// Remains are what an answer to a refused delete, or a later read, showed of its keys.
type Remains struct {
	There int  // how many exist as they were acquired
	Gone  int  // how many do not
	Index int  // the index of one that does not
	Again bool // one of these was made again, which no delete of ours explains
}

// Released says that the caller releases it. Later says that the key has to stay for a while and is
// then deleted in the background, so the release is decided at once.
type Released struct{ Later bool }

func (ev Released) apply(a *Machine) Effects {
	if a.Phase != Held || a.End != Alive {
		return Effects{}
	}
	fx := a.ends(GivenBack)
	if ev.Later {
		a.Phase, a.deletion.decided, fx.Remove = Undoing, true, true
	}
	return fx
}

// DeleteSent says that a delete is about to be sent. The first one carries a handoff if a waiter is
// known to come next. Unless a value is in doubt, it compares the modification revision. If it is
// applied, nobody else has written to the key, so its answer need not show the key, which after a
// handoff contains a list of waiters.
//
// So the first one may be refused although the key exists. With a handoff, which is refused
// whenever the successor has given up, the refusal reads the key; otherwise a separate read does.
// If the key exists, a delete that only compares the create revision follows.
type DeleteSent struct{}

func (DeleteSent) apply(a *Machine) Effects {
	first := !a.deletion.sent
	a.deletion.sent = true
	return Effects{Handoff: first && !a.Successors.Empty(), Exact: first && len(a.doubt.values) == 0}
}

// DeleteAnswered is the result of a delete.
type DeleteAnswered struct {
	Outcome  Outcome
	Handoff  bool    // it carried a handoff
	Exact    bool    // it compared the modification revision
	Remains  Remains // what the answer to a refused one showed, if it did
	Whole    bool    // it was refused because it deletes all keys of a set at once
	Repeated bool    // its sender repeats it after any failure
	Ended    bool    // the caller no longer waits

	// Was is the key as it was deleted, if the delete was applied and did not compare the modification
	// revision. Of a set it is the key that was written to last.
	Was OwnChanged
}

func (ev DeleteAnswered) apply(a *Machine) Effects {
	if a.Phase != Releasing {
		return Effects{Verdict: Stop}
	}
	v := afterDelete(ev)
	switch {
	case ev.Outcome == Refused && ev.Remains.inPart():
		return a.lostInPart(ev.Remains)
	case ev.Outcome == Applied && !a.knows(ev.Was):
		fx := a.decided(KeyOverwritten)
		fx.At, fx.Own = ev.Was.Mod, ev.Was.Index
		return fx
	case ev.Outcome == Applied:
		return a.decided(GivenBack)
	}
	a.deletion.learn(ev, v)
	return Effects{Verdict: v}
}

// learn records what a delete that was not applied says of later answers. v is the next step after
// it.
func (d *deletion) learn(ev DeleteAnswered, v Verdict) {
	d.left = d.left || ev.Whole
	switch {
	case ev.Outcome == Unknown && d.absence == present:
		d.absence = mayBeOurs
	case ev.Outcome != Refused:
	case ev.Exact && ev.Remains == Remains{}:
		d.untold = true
	case v == Explain && d.absence == present:
		d.absence = missed
	}
}

// afterDelete returns the next step after a delete that was not applied.
func afterDelete(ev DeleteAnswered) Verdict {
	switch {
	case ev.Whole:
		return Explain
	case ev.Outcome == Refused && ev.Remains.There > 0, ev.Outcome == NotApplied && ev.Handoff && !ev.Ended:
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

// inPart reports whether some of several keys exist and some do not. A delete of ours does not
// explain that, because it deletes all or none.
func (r Remains) inPart() bool { return r.There > 0 && r.Gone > 0 }

// lostInPart ends a release that found some of its keys missing. What is left of a set is deleted
// in the background.
func (a *Machine) lostInPart(r Remains) Effects {
	fx := a.decided(KeyDeleted)
	a.Phase, fx.Own, fx.Rest = Undoing, r.Index, true
	return fx
}

// Explained is what a read showed after a delete had not found its key as it was acquired, or after
// the delete of a set was refused as a whole. We put no key with the same name meanwhile (rule A1).
type Explained struct {
	SessionEnded bool    // the session key has changed
	Remains      Remains // of its keys, or of those of a set that could be read
}

func (ev Explained) apply(a *Machine) Effects {
	switch {
	case a.Phase != Releasing:
		return Effects{Verdict: Stop}
	case ev.SessionEnded:
		return a.decided(SessionEnded)
	case a.deletion.untold && ev.Remains.inPart():
		return a.lostInPart(ev.Remains)
	case a.deletion.untold && ev.Remains.There > 0:
		a.deletion.untold = false // it was written to, and the bare delete shows by whom
		return Effects{Verdict: Bare}
	case a.deletion.left:
		return a.leave(ev.Remains)
	case ev.Remains.There == 0 && a.explained(ev.Remains):
		return a.decided(GivenBack) // deleted by the delete whose answer was lost
	}
	return a.decided(KeyDeleted)
}

// leave ends the release of a set that the server refuses to delete at once. The background deletes
// its keys, unless r shows that it was lost.
func (a *Machine) leave(r Remains) Effects {
	if r.Gone > 0 && (r.There > 0 || !a.explained(r)) {
		return a.lostInPart(r)
	}
	a.decided(GivenBack)
	a.Phase = Undoing
	return Effects{Verdict: Finished, Remove: true}
}

// explained reports whether a delete of ours explains why keys are gone. It does not if they may
// have been gone when the first one was refused.
func (a *Machine) explained(r Remains) bool {
	return a.deletion.absence == mayBeOurs && !a.deletion.untold && !r.Again
}

// decided ends a release: it was released, or had been lost before.
func (a *Machine) decided(end End) Effects {
	a.Phase, a.End, a.deletion.decided = Done, end, true
	if end == GivenBack {
		return Effects{Verdict: Finished}
	}
	return Effects{Verdict: Lost, End: end, Held: true}
}
