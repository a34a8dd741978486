package state

import "github.com/pawl-locks/pawl/internal/keys"

// This file is rule A2: one transaction decides who owns a name. An acquisition becomes the owner
// on one of these kinds of evidence, and on nothing else.
//
//  1. The enqueue's transaction read the queue after its put, and found no key that conflicts
//     with the acquisition's (Enqueued, with Whole set). Package queue reads the answer in
//     enqueued (enqueue.go).
//  2. A query, answered at a revision not below that of the acquisition's key, found this key's
//     create revision and the session key's modification revision as we know them, and no
//     conflicting key that was created earlier (Answered, without a predecessor). Package queue
//     reads the answer in before (query.go).
//  3. The predecessor's release put a handoff on the acquisition's key, in the transaction that
//     deleted the predecessor's key, and found the acquisition's key there. The predecessor
//     was the holder until then, so nothing created earlier is left (handedOff). The watch's
//     event is read in ownChanged (watching.go), or a read of the key in takeIn (rewrite.go).
//  4. A take put the key of a free slot, and in the same transaction found the acquisition's
//     turnstile key and deleted it (rule SM1; took). Its answer is read in take, or, if that
//     was lost, the slot's key in foundTake (both semaphore.go).
//  5. The process that took the session over made a query as in 2 about a key that its
//     predecessor held (rule N6; Resumed). Its answer is read in resumed (resume.go).
//
// Every key of the queue conflicts with an exclusive key; every key that is not shared conflicts
// with a shared one (rules RW1, RW2). Package queue's transactions read no other keys, so this
// file treats both modes alike. If an exclusive key and another key both exist, the later one sees
// the earlier one, so the two are never both held.
//
// A set's transactions decide about all of its names at once (rule ML3), so its evidence is of one
// revision too.
//
// No key can be created before one that exists, so a key that was first stays first for as long as
// it exists. The clock says afterwards whether it still exists and whether the session is still
// valid (rule T3): Won follows that reading of the clock.

// Evidence is what showed that an acquisition is the owner.
type Evidence uint8

const (
	None       Evidence = iota
	ByEnqueue           // alone in the queue
	ByAnswer            // a query showed it first
	ByHandoff           // its predecessor's release handed the queue to it
	ByTake              // it took a slot
	ByResuming          // a query by the process that took the session over showed it first
)

// owns makes a the owner, on the evidence by.
func (a *Machine) owns(by Evidence) {
	if a.End == Alive && a.Phase < Owner {
		a.Evidence, a.Phase = by, Owner
	}
}

// Enqueued is the answer to an enqueue that was applied.
type Enqueued struct {
	Own         Key
	Others      []string // the other keys of a set
	Predecessor Key      // the last-created conflicting key before Own, in any queue; the zero Key if the read showed none
	Whole       bool     // the read left out no key that can conflict
	Revision    int64    // of the answer
	Taken       []Taken  // of a semaphore, if Whole and without a predecessor: the slots that are held
}

func (ev Enqueued) apply(a *Machine) Effects {
	if a.Phase != Enqueuing || ev.Own.Create <= 0 {
		return Effects{}
	}
	a.Own, a.others, a.Mod = ev.Own, ev.Others, ev.Own.Create
	if a.End != Alive {
		return Effects{}
	}
	alone := ev.Whole && ev.Predecessor == Key{}
	if alone && a.Limit > 0 {
		return a.takeOrWait(ev.Taken, ev.Revision)
	}
	if alone {
		a.owns(ByEnqueue)
		return Effects{} // its key is watched once it has been held for a while
	}
	fx := a.waitFor(ev.Predecessor, ev.Revision)
	own := a.watchOwn(fx.From)
	if fx.Follow == (Key{}) {
		own.From = ev.Own.Create + 1
	}
	fx.WatchOwn, fx.Own, fx.From = true, own.Own, own.From
	return fx
}

// Answered is the answer to a query. If Found is false, one of its keys or the session key has
// changed, and package queue reports why as another event.
type Answered struct {
	Found       bool
	Predecessor Key   // the last-created conflicting key before its keys, in any queue; the zero Key if it is first in all
	Revision    int64 // of the answer
	Successors  keys.Successors
	Taken       []Taken // of a semaphore, without a predecessor: the slots that are held
}

func (ev Answered) apply(a *Machine) Effects {
	if a.End != Alive || a.Phase != Querying || !ev.Found || ev.Revision < a.Own.Create {
		return Effects{}
	}
	if ev.Predecessor != (Key{}) {
		return a.waitFor(ev.Predecessor, ev.Revision)
	}
	if a.Limit > 0 {
		a.slots.queried = true
		return a.takeOrWait(ev.Taken, ev.Revision)
	}
	if a.Handoffs {
		a.Successors = ev.Successors
	}
	a.owns(ByAnswer)
	return Effects{}
}

// handedOff takes in a put on its key that is newer than what was known and is on its lease, if the
// put is a handoff, and reports whether it is. A handoff by another key than the predecessor only
// leads to a query, because the predecessor is gone then.
func (a *Machine) handedOff(value []byte) bool {
	if !a.Handoffs || a.Mod != a.Own.Create {
		return false // a key receives at most one handoff
	}
	h, ok := keys.ParseHandoff(value)
	if !ok {
		return false
	}
	switch {
	case a.Phase != Waiting && a.Phase != Querying: // it is the owner already
	case a.Predecessor.is(h):
		a.Successors = h.Successors
		a.owns(ByHandoff)
	default:
		a.query()
	}
	return true
}

// is reports whether k is the key whose release made the handoff.
func (k Key) is(h keys.Handoff) bool {
	_, name := keys.Split(k.Name)
	return k.Create == h.Create && name == string(h.By)
}

// took makes the key of a slot its key.
func (a *Machine) took(slot Key) Effects {
	a.Own, a.Mod, a.broken = slot, slot.Create, 0
	a.slots.tried, a.slots.ownWatched = nil, false
	a.owns(ByTake)
	return Effects{Unwatch: true}
}

// Resumed is the state of an acquisition that a query found first in its queues, on a session that
// was taken over. mod is the modification revision of own, its key, and others are its other keys.
func Resumed(own Key, mod int64, others ...string) Machine {
	return Machine{Phase: Held, Own: own, Mod: mod, others: others, Evidence: ByResuming}
}

// Won says that the clock and the caller's context were checked after the evidence was found.
type Won struct{}

func (Won) apply(a *Machine) Effects {
	if a.End != Alive || a.Phase != Owner {
		return Effects{}
	}
	a.Phase, a.Predecessor, a.slots.watched = Held, Key{}, false
	return Effects{Unfollow: true}
}
