package state

import "github.com/pawl-locks/pawl/internal/keys"

// This file is rule A2: who owns a name is decided by one transaction. There are three
// kinds of evidence, and a fourth for the slots of a semaphore, and owns is called nowhere else.
//
//  1. The enqueue's own transaction read the queue after its put, and found nothing in the
//     way of the own key (Enqueued, in whole).
//  2. A query compared the own key's create revision and the session key's modification
//     revision with ours, and read no key in its way that was created before it, at a
//     revision not below the own key's (Answered, without a predecessor).
//  3. The predecessor's release put a handoff on the own key, in the transaction that
//     deleted the predecessor, and found the own key there. The predecessor was the
//     holder until then, so nothing created before it is left (handedOff).
//
//  4. A take put the key of a slot that had none, and deleted the own key in the
//     turnstile, which it found there (rule SM1; slots.go).
//
// In the way of an exclusive key is every key of the queue, of a shared one every key that
// is not shared (rules RW1, RW2). The transactions of package queue read no others; what
// follows from them is the same for both. Of an exclusive and another key that are both
// there the later one sees the earlier, so that never both hold.
//
// A set's transactions decide about all of its names at once (rule ML3), so that its
// evidence is of one revision too.
//
// Nothing can be created before a key that is there, so what was first once stays first
// for as long as it is there. Whether it still is, and whether the session is still
// valid, is what the clock says afterwards (rule T3): Won comes after that look.

// Evidence is what made an acquisition the owner.
type Evidence uint8

const (
	None       Evidence = iota
	ByEnqueue           // alone in the queue
	ByAnswer            // a query showed it first
	ByHandoff           // its predecessor handed the queue on
	ByResuming          // a query of the session's next process showed it first
	ByTake              // of a slot
)

// owns makes a the owner.
func (a *Acquisition) owns(by Evidence) {
	if a.end == Alive && a.evidence == None && a.phase < Held {
		a.evidence = by
	}
}

// Enqueued is the answer of an enqueue that was applied.
type Enqueued struct {
	Own         Key
	Others      []string // the other keys of a set
	Predecessor Key      // the last-created key in the way before Own that was read, in any queue, or the zero Key
	Whole       bool     // nothing of the queue was left out of the read
	Revision    int64    // of the answer
	Taken       []Taken  // of a semaphore, in whole and without a predecessor: the slots that are held
}

func (ev Enqueued) apply(a *Acquisition) Effects {
	if a.phase != Enqueuing || ev.Own.Create <= 0 {
		return Effects{}
	}
	a.own, a.others, a.mod = ev.Own, ev.Others, ev.Own.Create
	if a.end != Alive {
		return Effects{}
	}
	alone := ev.Whole && ev.Predecessor == Key{}
	if alone && a.Limit > 0 {
		return a.turn(ev.Taken, ev.Revision)
	}
	if alone {
		a.owns(ByEnqueue)
		a.phase = Querying
		return Effects{} // its key is watched when it has been held for a moment
	}
	fx := a.waitFor(ev.Predecessor, ev.Revision)
	own := a.watchOwn(fx.From)
	if fx.Follow == (Key{}) {
		own.From = ev.Own.Create + 1
	}
	fx.WatchOwn, fx.Own, fx.From = true, own.Own, own.From
	return fx
}

// Answered is the answer to a query. Where Found is false the own key or the session
// key is not as it was, and the user reports why as another event.
type Answered struct {
	Found       bool
	Predecessor Key   // the last-created key in the way before the own ones, in any queue; the zero Key: none, it is first in all
	Revision    int64 // of the answer
	Unclean     bool  // the predecessor before that went without a release
	Successors  keys.Successors
	Taken       []Taken // of a semaphore, without a predecessor: the slots that are held
}

func (ev Answered) apply(a *Acquisition) Effects {
	if a.end != Alive || a.phase != Querying || a.evidence != None || !ev.Found || ev.Revision < a.own.Create {
		return Effects{}
	}
	if ev.Predecessor != (Key{}) {
		return a.waitFor(ev.Predecessor, ev.Revision)
	}
	if a.Limit > 0 {
		a.slots.queried = true
		return a.turn(ev.Taken, ev.Revision)
	}
	if a.Delay && (ev.Unclean || a.sawShared) {
		a.Delay = false
		return Effects{Delay: true} // then it queries once more, because time has gone by
	}
	if a.Handoffs {
		a.successors = ev.Successors
	}
	a.owns(ByAnswer)
	return Effects{}
}

// handedOff takes in a put on the own key, newer than what was known and on the own
// lease, if it is a handoff, and reports whether it is. A handoff by another key than
// the predecessor, which is gone then, is a reason to query and no more.
func (a *Acquisition) handedOff(value []byte) bool {
	if !a.Handoffs || a.mod != a.own.Create {
		return false // a key is handed off to once
	}
	h, ok := keys.ParseHandoff(value)
	if !ok {
		return false
	}
	switch {
	case a.phase != Waiting && a.phase != Querying, a.evidence != None: // it owns already
	case a.predecessor.is(h):
		a.successors = h.Successors
		a.phase, a.expecting = Querying, false
		a.owns(ByHandoff)
	default:
		a.query()
	}
	return true
}

// is reports whether k is the key whose release was the handoff.
func (k Key) is(h keys.Handoff) bool {
	_, name := keys.Split(k.Name)
	return k.Create == h.Create && name == string(h.By)
}

// Won says that the clock, and the caller's context, were looked at after the evidence
// was there.
type Won struct{}

func (Won) apply(a *Acquisition) Effects {
	if a.end != Alive || a.evidence == None || a.phase >= Held {
		return Effects{}
	}
	a.phase, a.predecessor, a.deletedAt, a.slots.watched = Held, Key{}, 0, false
	return Effects{Unfollow: true}
}
