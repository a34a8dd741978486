package state

// Seen is what a read without values showed of one key; the zero Seen: it was not there.
type Seen struct{ Create, Mod int64 }

// Observed is what a linearizable read at Revision, sent after the own key and the
// predecessor were asked for, showed of both. It finds what a watch missed, and renews
// a watch that has ended (rules A4, N1).
type Observed struct {
	Revision         int64
	Own, Predecessor Seen
	Place            int // of Own among the own keys; with another than the first nothing is said of the predecessor

	// Key is the name of Own as it was read; "": that of the own key at Place. Of another
	// nothing is said: a slot's key has taken its place meanwhile.
	Key string
}

func (ev Observed) apply(a *Acquisition) Effects {
	switch {
	case a.end != Alive, a.own.Create == 0, ev.Revision < a.own.Create, ev.Key != "" && ev.Key != a.name(ev.Place):
		return Effects{}
	case ev.Own.Create != a.own.Create:
		return a.gone(ev.Place)
	case ev.Own.Mod > a.mod && !a.explains():
		return a.overwritten(ev.Place, ev.Own.Mod)
	}
	fx := Effects{Read: ev.Own.Mod > a.mod && a.doubt.beginRead()}
	if a.broken&(1<<ev.Place) != 0 {
		a.broken &^= 1 << ev.Place
		fx.WatchOwn, fx.Own, fx.From = true, ev.Place, ev.Revision+1
	}
	switch {
	case a.phase == Full:
		fx.Wake = a.ownRead()
	case a.predecessor == Key{}, ev.Place != 0:
	case ev.Predecessor.Create != a.predecessor.Create:
		if a.phase == Waiting && !a.expecting {
			a.query()
		}
		fx.Wake = true
	case a.preBroken:
		a.preBroken = false
		fx.Follow, fx.From = a.predecessor, ev.Revision+1
	}
	return fx
}

// explains reports whether a newer modification revision may be ours: a value in doubt,
// or a handoff of which nothing is known yet.
func (a *Acquisition) explains() bool {
	return a.doubt.any() || a.Handoffs && a.evidence != ByEnqueue
}

// OwnChanged is an own key as an event or an answer showed it.
type OwnChanged struct {
	Place       int
	Create, Mod int64
	OnLease     bool // it is on the own lease
	Value       []byte
}

func (ev OwnChanged) apply(a *Acquisition) Effects {
	if a.own.Create == 0 || a.end != Alive {
		return Effects{}
	}
	if ev.Create != a.own.Create && ev.Mod > a.mod {
		return a.gone(ev.Place) // and made again by somebody
	}
	if !a.knows(ev) {
		return a.overwritten(ev.Place, ev.Mod)
	}
	return Effects{Wake: a.phase < Held && a.phase >= Waiting}
}

// overwritten ends the acquisition because somebody else wrote to an own key at mod.
func (a *Acquisition) overwritten(place int, mod int64) Effects {
	fx := a.ends(KeyOverwritten)
	fx.At, fx.Own = mod, place
	return fx
}

// deleted ends the acquisition because an own key is gone.
func (a *Acquisition) deleted(place int) Effects {
	fx := a.ends(KeyDeleted)
	fx.Own = place
	return fx
}

// knows reports whether the own key as it was shown is ours: known already, a value in
// doubt, or a handoff to it. What is new in it is taken in.
func (a *Acquisition) knows(ev OwnChanged) bool {
	switch {
	case ev.Mod <= a.mod:
		return true
	case !ev.OnLease || ev.Create != a.own.Create:
		return false
	case a.handedOff(ev.Value), a.doubt.landed(ev.Value):
		a.mod = ev.Mod
		a.doubt.clear()
		return true
	}
	return false
}

// OwnDeleted says that an own key is gone, which it is not to our doing, or only because a
// slot was taken.
type OwnDeleted struct {
	Place    int
	Revision int64 // of the deletion; 0: not known. The own key was created later than what was deleted before.
}

func (ev OwnDeleted) apply(a *Acquisition) Effects {
	if a.own.Create == 0 || ev.Revision != 0 && ev.Revision <= a.own.Create {
		return Effects{}
	}
	return a.gone(ev.Place)
}

// Armed says that it has been held for longer than a moment.
type Armed struct{}

func (Armed) apply(a *Acquisition) Effects {
	if a.end != Alive {
		return Effects{}
	}
	return a.watchOwn(a.own.Create + 1)
}
