package state

// waitFor makes p, which an answer at revision rev showed, the predecessor. If p is zero, a
// query finds the predecessor.
func (a *Machine) waitFor(p Key, rev int64) Effects {
	a.Predecessor, a.preBroken, a.slots.watched = p, false, false
	if p == (Key{}) {
		a.Phase = Querying
		return Effects{}
	}
	a.Phase = Waiting
	return Effects{Unfollow: true, Follow: p, From: rev + 1}
}

// query ends the wait for the predecessor, which may be gone, so that a query follows.
func (a *Machine) query() {
	if a.Phase == Waiting {
		a.Phase = Querying
	}
}

// PredecessorDeleted says that Key was deleted. It has no effect if Key is no longer the
// predecessor.
type PredecessorDeleted struct{ Key Key }

func (ev PredecessorDeleted) apply(a *Machine) Effects {
	if a.End != Alive || ev.Key != a.Predecessor || ev.Key == (Key{}) {
		return Effects{}
	}
	a.query()
	return Effects{Wake: true}
}

// WatchEnded says that the watch of Key, one of its keys or the predecessor, has ended. Missed says
// that a compaction may have hidden events of Key. A query replaces them, and its position in the
// queue is kept (rule A4).
type WatchEnded struct {
	Key    Key
	Missed bool
}

func (ev WatchEnded) apply(a *Machine) Effects {
	i, own := a.indexOf(ev.Key)
	switch {
	case a.End != Alive || ev.Key == (Key{}):
	case own:
		a.broken |= 1 << i
	case ev.Key == a.Predecessor:
		a.preBroken = true
		if ev.Missed {
			a.query()
		}
		return Effects{Wake: true}
	}
	return Effects{}
}
