package state

// An Outcome is what is known of a request that was sent.
type Outcome uint8

const (
	Applied    Outcome = iota
	Refused            // answered: its comparisons failed
	NotApplied         // failed: it changed nothing, and never will
	Unknown            // failed: it may have been applied, or may still be
)

// A Verdict is what a release, or a rewrite, does next.
type Verdict uint8

const (
	Proceed Verdict = iota // nothing was decided
	Finished
	Lost    // it was not held until then
	Bare    // delete again, without a handoff
	Explain // read why there was nothing to delete
	Again   // write again
	Stop    // return the error: what was asked for was not done
	Doubt   // return the error: it is not known whether what was asked for was done
)

// absence is the first evidence that the own key was not there any more.
type absence uint8

const (
	present absence = iota
	// mayBeOurs: a delete may have been applied whose answer was lost.
	mayBeOurs
	// missed: it was not there, and no delete of ours can have been applied.
	missed
)

// deletion is how far a release has come.
type deletion struct {
	sent    bool // the first request was sent: later ones carry no handoff
	absence absence
	decided bool
}

// Released says that the caller gives it back. Later says that the own key stays for a
// while, and is deleted in the background then: the release is decided at once.
type Released struct{ Later bool }

func (ev Released) apply(a *Acquisition) Effects {
	if a.phase != Held {
		return Effects{}
	}
	fx := a.ends(GivenBack)
	if ev.Later {
		a.phase, a.deletion.decided = Undoing, true
	}
	return fx
}

// DeleteSent says that a delete is about to be sent. The first one carries a handoff,
// where somebody is known to be behind.
type DeleteSent struct{}

func (DeleteSent) apply(a *Acquisition) Effects {
	first := !a.deletion.sent
	a.deletion.sent = true
	return Effects{Handoff: first && !a.successors.Empty()}
}

// DeleteAnswered is what became of a delete.
type DeleteAnswered struct {
	Outcome  Outcome
	Handoff  bool       // it carried one
	Repeated bool       // its sender repeats it by itself after any failure
	Ended    bool       // the caller waits no longer
	Was      OwnChanged // the own key as it was deleted, of a set one that is not known, if any is; of an applied one, else zero

	// Partly says, of a refused one of a set, that some own keys were there, and are deleted,
	// and that the one at Missing was not. It is no trace of an earlier delete of ours, which
	// would have deleted all.
	Partly  bool
	Missing int
}

func (ev DeleteAnswered) apply(a *Acquisition) Effects {
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
		fx.At, fx.Own = ev.Was.Mod, ev.Was.Place
		return fx
	case v == Finished:
		return a.decided(GivenBack)
	case ev.Outcome == Unknown && a.deletion.absence == present:
		a.deletion.absence = mayBeOurs
	case v == Explain && a.deletion.absence == present:
		a.deletion.absence = missed
	}
	return Effects{Verdict: v}
}

// afterDelete is what follows a delete.
func afterDelete(ev DeleteAnswered) Verdict {
	switch {
	case ev.Outcome == Applied:
		return Finished
	case ev.Handoff && (ev.Outcome == Refused || ev.Outcome == NotApplied && !ev.Ended):
		return Bare // what refused the handoff may let the delete pass
	case ev.Outcome == Refused:
		return Explain
	case ev.Outcome == Unknown && !ev.Repeated && !ev.Ended:
		return Bare
	case ev.Outcome == Unknown:
		return Doubt
	}
	return Stop
}

// Explained is what a read showed after a delete did not find the own key as it was
// acquired. The key cannot come back meanwhile (rule A1).
type Explained struct {
	SessionEnded bool // the session key is not as we know it
	There        bool // the own key's name is there
}

func (ev Explained) apply(a *Acquisition) Effects {
	switch {
	case a.phase != Releasing:
		return Effects{Verdict: Stop}
	case ev.SessionEnded:
		return a.decided(SessionEnded)
	case a.deletion.absence == mayBeOurs && !ev.There:
		return a.decided(GivenBack) // it was the delete whose answer was lost
	}
	return a.decided(KeyDeleted)
}

// decided is the end of a release: given back, or lost before.
func (a *Acquisition) decided(end End) Effects {
	a.phase, a.end, a.deletion.decided = Done, end, true
	if end == GivenBack {
		return Effects{Verdict: Finished}
	}
	return Effects{Verdict: Lost, End: end, Held: true}
}
