package state

import "github.com/pawl-locks/pawl/internal/keys"

// AnswerLost says that an enqueue was sent, and that its answer does not say whether
// it was applied.
type AnswerLost struct{}

func (AnswerLost) apply(a *Acquisition) Effects {
	if a.phase == Enqueuing && a.own.Create == 0 {
		a.phase = Settling
	}
	return Effects{}
}

// Settled is what became of an enqueue whose answer was lost: Own was found, with Others of
// a set, or, where its Create is 0, it was not applied and never will be. That one of them
// was not there is an event of its own, after this.
type Settled struct {
	Own    Key
	Others []string
}

func (ev Settled) apply(a *Acquisition) Effects {
	if a.phase != Settling {
		return Effects{}
	}
	if ev.Own.Create <= 0 {
		a.phase = Enqueuing // under another name
		return Effects{}
	}
	a.own, a.others, a.mod, a.phase = ev.Own, ev.Others, ev.Own.Create, Querying
	return a.watchOwn(ev.Own.Create + 1)
}

// waitFor makes p, which an answer at revision rev showed, the predecessor. Without one
// a query shows.
func (a *Acquisition) waitFor(p Key, rev int64) Effects {
	a.predecessor, a.deletedAt, a.expecting, a.preBroken, a.slots.watched = p, 0, false, false, false
	if p == (Key{}) {
		a.phase = Querying
		return Effects{}
	}
	a.phase = Waiting
	if a.Delay && !a.sawShared { // one that crashes among several leaves no trace (rule RW3)
		k, ok := keys.ParseQueueKey(p.Name)
		a.sawShared = ok && k.Form == keys.Shared
	}
	return Effects{Unfollow: true, Follow: p, From: rev + 1}
}

// query ends the wait for the predecessor: it may be gone.
func (a *Acquisition) query() {
	if a.phase == Waiting {
		a.phase, a.expecting = Querying, false
	}
}

// PredecessorDeleted says that Key was deleted at Revision, when it had Value. Of a key
// that is not the predecessor any more it says nothing.
type PredecessorDeleted struct {
	Key      Key
	Revision int64
	Value    []byte
}

func (ev PredecessorDeleted) apply(a *Acquisition) Effects {
	if a.end != Alive || ev.Key != a.predecessor || ev.Key == (Key{}) {
		return Effects{}
	}
	a.deletedAt = ev.Revision
	if a.phase == Waiting && a.isNamedBy(ev.Value) {
		a.expecting = true
		return Effects{Wake: true}
	}
	a.query()
	return Effects{Wake: true}
}

// isNamedBy reports whether value, of the predecessor, is that of a key which was handed
// off to and which knew the own key as its successor, so that its release was to be a
// handoff to the own key. The two events of such a release come in either order.
func (a *Acquisition) isNamedBy(value []byte) bool {
	if !a.Handoffs {
		return false
	}
	h, ok := keys.ParseHandoff(value)
	next, _, named := h.Successors.First()
	_, name := keys.Split(a.own.Name)
	return ok && named && string(next.Name) == name && next.Create == a.own.Create
}

// HandoffLate says that a handoff which was expected has not come in time.
type HandoffLate struct{}

func (HandoffLate) apply(a *Acquisition) Effects {
	if a.expecting {
		a.query()
	}
	return Effects{}
}

// DeletionCompacted says that the revision of the predecessor's deletion is compacted,
// so that nothing can be read as of it.
type DeletionCompacted struct{}

func (DeletionCompacted) apply(a *Acquisition) Effects {
	a.deletedAt = 0
	return Effects{}
}

// WatchEnded says that the watch of Key, which is an own key or the predecessor, has
// ended. Missed says that events of it may have been missed, by a compaction: what they
// may have delivered is queried, and the position is kept (rule A4).
type WatchEnded struct {
	Key    Key
	Missed bool
}

func (ev WatchEnded) apply(a *Acquisition) Effects {
	i, own := a.place(ev.Key)
	switch {
	case a.end != Alive || ev.Key == (Key{}):
	case own:
		a.broken |= 1 << i
	case ev.Key == a.predecessor:
		a.preBroken = true
		if ev.Missed {
			a.query()
		}
		return Effects{Wake: true}
	}
	return Effects{}
}
