package state

// Seen is what a read without values showed of one key. The zero Seen means that it did not exist.
type Seen struct{ Create, Mod int64 }

// Observed is what a linearizable read at Revision showed of one of its keys and the predecessor.
// The read was sent after their names were read from the acquisition. It finds what a watch missed,
// and renews a watch that has ended (rules A4, N1).
type Observed struct {
	Revision         int64
	Own, Predecessor Seen
	Index            int // the index of Own among its keys; unless it is 0, nothing was read of the predecessor

	// Key is the name of Own as it was read; "" means the name of its key at Index. If it is
	// another name, the event is ignored, because a slot's key has replaced that key meanwhile.
	Key string
}

func (ev Observed) apply(a *Machine) Effects {
	switch {
	case a.End != Alive, a.Own.Create == 0, ev.Revision < a.Own.Create, ev.Key != "" && ev.Key != a.name(ev.Index):
		return Effects{}
	case ev.Own.Create != a.Own.Create:
		return a.gone(ev.Index)
	case ev.Own.Mod > a.Mod && !a.explains():
		return a.overwritten(ev.Index, ev.Own.Mod)
	}
	fx := Effects{Read: ev.Own.Mod > a.Mod && a.doubt.beginRead()}
	if a.broken&(1<<ev.Index) != 0 {
		a.broken &^= 1 << ev.Index
		fx.WatchOwn, fx.Own, fx.From = true, ev.Index, ev.Revision+1
	}
	switch {
	case a.Phase == Full:
		fx.Wake = a.queryAgain() // even if no watch showed a free slot (rule A4)
	case a.Predecessor == Key{}, ev.Index != 0:
	case ev.Predecessor.Create != a.Predecessor.Create:
		a.query()
		fx.Wake = true
	case a.preBroken:
		a.preBroken = false
		fx.Follow, fx.From = a.Predecessor, ev.Revision+1
	}
	return fx
}

// explains reports whether a newer modification revision may be ours: a value in doubt, or a
// handoff that is not known yet.
func (a *Machine) explains() bool {
	return len(a.doubt.values) > 0 || a.Handoffs && a.Evidence != ByEnqueue
}

// OwnChanged is one of its keys as an event or an answer showed it.
type OwnChanged struct {
	Index       int
	Create, Mod int64
	OnLease     bool // it is on the session's lease
	Value       []byte
}

func (ev OwnChanged) apply(a *Machine) Effects {
	if a.Own.Create == 0 || a.End != Alive {
		return Effects{}
	}
	if ev.Create != a.Own.Create && ev.Mod > a.Mod {
		return a.gone(ev.Index) // somebody deleted it and made it again
	}
	if !a.knows(ev) {
		return a.overwritten(ev.Index, ev.Mod)
	}
	return Effects{Wake: a.Phase < Held && a.Phase >= Waiting}
}

// gone decides what follows when its key at index i does not exist. While a take may have deleted
// it, a query finds that out; otherwise it is a loss.
func (a *Machine) gone(i int) Effects {
	if a.End == Alive && a.Trying() {
		return Effects{Wake: a.queryAgain()}
	}
	return a.deleted(i)
}

// overwritten ends the acquisition because somebody else wrote to one of its keys at revision mod.
func (a *Machine) overwritten(i int, mod int64) Effects {
	fx := a.ends(KeyOverwritten)
	fx.At, fx.Own = mod, i
	return fx
}

// deleted ends the acquisition because one of its keys is gone.
func (a *Machine) deleted(i int) Effects {
	fx := a.ends(KeyDeleted)
	fx.Own = i
	return fx
}

// knows reports whether its key, as ev showed it, is ours: known already, a value in doubt, or a
// handoff to it. It records what is new.
func (a *Machine) knows(ev OwnChanged) bool {
	switch {
	case ev.Mod <= a.Mod:
		return true
	case !ev.OnLease || ev.Create != a.Own.Create:
		return false
	case a.handedOff(ev.Value), a.doubt.landed(ev.Value):
		a.Mod = ev.Mod
		a.doubt.clear()
		return true
	}
	return false
}

// OwnDeleted says that one of its keys was deleted, either by somebody else or by the take of a
// slot.
type OwnDeleted struct {
	Index    int
	Revision int64 // of the deletion, or 0 if not known; a deletion before its key was created is ignored
}

func (ev OwnDeleted) apply(a *Machine) Effects {
	if a.Own.Create == 0 || ev.Revision != 0 && ev.Revision <= a.Own.Create {
		return Effects{}
	}
	return a.gone(ev.Index)
}

// Armed says that it has been held for longer than session.ArmDelay.
type Armed struct{}

func (Armed) apply(a *Machine) Effects {
	if a.End != Alive {
		return Effects{}
	}
	return a.watchOwn(a.Own.Create + 1)
}
