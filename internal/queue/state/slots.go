package state

import "slices"

// This file holds what only a semaphore needs (rules SM1 to SM4). An acquisition first queues at
// the turnstile, as at a lock. The first one there reads which slots are held and, if one is free
// for it, takes that slot. The take is one transaction: it puts the slot's key if no key of the
// slot exists, and deletes the acquisition's turnstile key if it finds that there. The first half
// guarantees that no two hold one slot. The second guarantees that a take happens once, and only by
// the first in the turnstile. The slot's key then replaces the turnstile key.
//
// While an acquisition is first, no other can take a slot, so slots that it saw held can only have
// become free.

// slots is what an acquisition knows of its semaphore's slots.
type slots struct {
	tried      []int // the slots whose keys may have been put, or may be later, while its key is the one in the turnstile
	freed      int64 // the highest revision at which a slot is known to have been freed
	trying     int32 // the slot of phase Taking
	queried    bool  // it became first in the turnstile by a query, not by its enqueue
	watched    bool  // the slots' deletions are watched
	ownWatched bool  // its key is watched, or was
}

// Taken is a held slot. Limit is how many slots its holder's semaphore has. A foreign key among the
// slots has Limit 0: while it exists nobody takes a slot.
type Taken struct{ Slot, Limit int }

// Free returns the lowest slot that an acquisition with limit may take beside taken. It uses the
// least limit of all, and the number of holders, so that no holder is ever one of more than its own
// limit (rule SM3).
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

// takeOrWait decides what follows when it is the first in the turnstile, and an answer at revision
// rev showed which slots are held.
func (a *Machine) takeOrWait(taken []Taken, rev int64) (fx Effects) {
	if a.Predecessor != (Key{}) {
		a.Predecessor, a.preBroken, fx.Unfollow = Key{}, false, true
	}
	if slot, ok := Free(a.Limit, taken); ok {
		a.Phase, a.slots.trying = Taking, int32(slot)
		if !slices.Contains(a.slots.tried, slot) {
			a.slots.tried = append(slices.Clip(a.slots.tried), slot)
		}
		return fx
	}
	if a.slots.freed > rev {
		a.Phase = Querying // what the answer showed is out of date
		return fx
	}
	a.Phase = Full
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

// queryAgain ends the wait for a slot, because one may be free or its key may be gone.
func (a *Machine) queryAgain() (wake bool) {
	if a.Phase != Full {
		return false
	}
	a.Phase = Querying
	return true
}

// SlotFreed says that the key of a slot was deleted at Revision.
type SlotFreed struct{ Revision int64 }

func (ev SlotFreed) apply(a *Machine) Effects {
	a.slots.freed = max(a.slots.freed, ev.Revision)
	return Effects{Wake: a.queryAgain()}
}

// SlotsWatchEnded says that the watch of the slots has ended. Missed says that a compaction may
// have hidden deletions. The next query of the slots renews the watch.
type SlotsWatchEnded struct{ Missed bool }

func (ev SlotsWatchEnded) apply(a *Machine) Effects {
	if !a.slots.watched {
		return Effects{}
	}
	a.slots.watched = false
	return Effects{Unfollow: true, Wake: ev.Missed && a.queryAgain()}
}

// TakeAnswered is the result of a take. Own is the slot's key if it was applied. If it was not, or
// that is unknown, a query finds out.
type TakeAnswered struct {
	Outcome Outcome
	Own     Key
}

func (ev TakeAnswered) apply(a *Machine) Effects {
	if a.Phase != Taking || !a.Trying() {
		return Effects{}
	}
	if ev.Outcome == Applied && ev.Own.Create > a.Own.Create {
		return a.took(ev.Own)
	}
	a.Phase = Querying
	return Effects{}
}

// TakeFound is what an answer showed after a take when its turnstile key did not exist and the
// session key was unchanged. Own is the key of the slot that it took. If Own.Create is 0, none of
// the slots that it tried has its key, so somebody has deleted the turnstile key or the slot's.
type TakeFound struct{ Own Key }

func (ev TakeFound) apply(a *Machine) Effects {
	switch {
	case a.Phase != Querying || !a.Trying():
		return Effects{}
	case ev.Own.Create > a.Own.Create:
		return a.took(ev.Own)
	}
	return a.deleted(0)
}

// Trying reports whether the key of a slot may exist, or may be put later, beside its turnstile key
// or instead of it.
func (a *Machine) Trying() bool { return len(a.slots.tried) > 0 }

// Slot is the slot to be taken in phase Taking.
func (a *Machine) Slot() int { return int(a.slots.trying) }

// Tried returns the slots that Trying is about.
func (a *Machine) Tried() []int { return a.slots.tried }

// FollowsSlots reports whether the slots' deletions have to be watched.
func (a *Machine) FollowsSlots() bool { return a.slots.watched }

// Queried reports whether it had to query its position or a slot after its enqueue.
func (a *Machine) Queried() bool { return a.slots.queried }
