package state

import "slices"

// This file is what a semaphore has beside a lock (rules SM1 to SM4). An acquisition queues at
// the turnstile, as at a lock. The first one there looks which slots are held and, where one
// is free for it, takes that: one transaction puts the slot's key if there is none, and
// deletes the own key in the turnstile, which it finds there. That no two hold one slot rests
// on the first half alone, that a take happens once and in turn on the second. The slot's key
// is the own key from then on.
//
// While an acquisition is first no other can take a slot, so that what it saw held can only
// have become less.

// slots is what an acquisition knows of its semaphore.
type slots struct {
	tried      []int // those whose keys may have been put, or may yet be, while the own key is that in the turnstile
	freed      int64 // the highest revision at which a slot is known to have been freed
	trying     int32 // the slot that Taking is about
	reads      uint8 // reads of the own key since it became Full
	queried    bool  // a query showed it first in the turnstile, and not its enqueue
	watched    bool  // the slots' deletions are watched
	ownWatched bool  // the own key is, or was
}

// Taken is a slot that is held, by one whose semaphore has Limit slots. A key among the
// slots' that is not pawl's has Limit 0: nobody takes a slot beside it.
type Taken struct{ Slot, Limit int }

// Free is the lowest slot that one whose semaphore has limit slots may take beside taken. It
// heeds the least limit of all, and counts, so that nobody is ever one of more than it agreed
// to (rule SM3).
func Free(limit int, taken []Taken) (slot int, ok bool) {
	held := make(map[int]bool, len(taken))
	for _, t := range taken {
		limit = min(limit, t.Limit)
		held[t.Slot] = true
	}
	if len(taken) >= limit {
		return 0, false
	}
	for held[slot] {
		slot++
	}
	return slot, true // below limit: not even limit slots are held
}

// turn is what follows when it is the first in the turnstile, and an answer at revision rev
// showed which slots are held.
func (a *Acquisition) turn(taken []Taken, rev int64) (fx Effects) {
	if a.predecessor != (Key{}) {
		a.predecessor, a.deletedAt, a.preBroken, fx.Unfollow = Key{}, 0, false, true
	}
	if slot, ok := Free(a.Limit, taken); ok {
		a.phase, a.slots.trying = Taking, int32(slot)
		if !slices.Contains(a.slots.tried, slot) {
			a.slots.tried = append(slices.Clip(a.slots.tried), slot)
		}
		return fx
	}
	if a.slots.freed > rev {
		a.phase = Querying // what the answer showed is out of date
		return fx
	}
	a.phase, a.slots.reads = Full, 0
	if !a.slots.ownWatched {
		own := a.watchOwn(rev + 1)
		fx.WatchOwn, fx.Own = true, own.Own
	}
	fx.FollowSlots, a.slots.watched = !a.slots.watched, true
	if fx.WatchOwn || fx.FollowSlots {
		fx.From = rev + 1
	}
	return fx
}

// queryAgain ends the wait for a slot: one may be free, or the own key may be gone.
func (a *Acquisition) queryAgain() (wake bool) {
	if a.phase != Full {
		return false
	}
	a.phase = Querying
	return true
}

// readsPerQuery is how many of the session's renewals, of which there are four in a TTL, come
// before the slots are asked for again though no watch showed that one is free (rule A4).
const readsPerQuery = 2

// ownRead counts a read of the own key in a renewal, and reports whether it is time to query.
func (a *Acquisition) ownRead() (wake bool) {
	a.slots.reads++
	return a.slots.reads >= readsPerQuery && a.queryAgain()
}

// gone is what follows when the own key at place is not there. While a take may have deleted
// it nothing does but that a query finds out.
func (a *Acquisition) gone(place int) Effects {
	if a.end == Alive && a.Trying() {
		return Effects{Wake: a.queryAgain()}
	}
	return a.deleted(place)
}

// SlotFreed says that the key of a slot was deleted at Revision.
type SlotFreed struct{ Revision int64 }

func (ev SlotFreed) apply(a *Acquisition) Effects {
	a.slots.freed = max(a.slots.freed, ev.Revision)
	return Effects{Wake: a.queryAgain()}
}

// SlotsWatchEnded says that the watch of the slots has ended. Missed says that deletions may
// have been missed, by a compaction. It is renewed when the slots are asked for again.
type SlotsWatchEnded struct{ Missed bool }

func (ev SlotsWatchEnded) apply(a *Acquisition) Effects {
	if !a.slots.watched {
		return Effects{}
	}
	a.slots.watched = false
	return Effects{Unfollow: true, Wake: ev.Missed && a.queryAgain()}
}

// TakeAnswered is what became of a take, Own the slot's key where it was applied. Otherwise
// a query shows what is so.
type TakeAnswered struct {
	Outcome Outcome
	Own     Key
}

func (ev TakeAnswered) apply(a *Acquisition) Effects {
	if a.phase != Taking || !a.Trying() {
		return Effects{}
	}
	if ev.Outcome == Applied && ev.Own.Create > a.own.Create {
		return a.took(ev.Own)
	}
	a.phase = Querying
	return Effects{}
}

// TakeFound is what an answer showed after a take when the own key in the turnstile was not
// there, on the session as it is known: the key of a slot, ours, or, where Own's Create is 0, none
// of those that were tried, so that somebody has deleted the one or the other.
type TakeFound struct{ Own Key }

func (ev TakeFound) apply(a *Acquisition) Effects {
	switch {
	case a.phase != Querying || !a.Trying():
		return Effects{}
	case ev.Own.Create > a.own.Create:
		return a.took(ev.Own)
	}
	return a.deleted(0)
}

// took makes the key of a slot the own key.
func (a *Acquisition) took(slot Key) Effects {
	a.own, a.mod, a.broken = slot, slot.Create, 0
	a.slots.tried, a.slots.ownWatched = nil, false
	a.owns(ByTake)
	return Effects{Unwatch: true}
}

// Trying reports whether the key of a slot may be there, or may yet come, beside the own key
// in the turnstile or in its place.
func (a *Acquisition) Trying() bool { return len(a.slots.tried) > 0 }

// Slot is the slot that a Take is to take.
func (a *Acquisition) Slot() int { return int(a.slots.trying) }

// Tried are the slots of which Trying speaks.
func (a *Acquisition) Tried() []int { return a.slots.tried }

// FollowsSlots reports whether the slots' deletions are to be watched.
func (a *Acquisition) FollowsSlots() bool { return a.slots.watched }

// Queried reports whether it had to query its turn or a slot after its enqueue.
func (a *Acquisition) Queried() bool { return a.slots.queried }
