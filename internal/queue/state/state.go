package state

import (
	"slices"

	"github.com/pawl-locks/pawl/internal/keys"
)

// A Phase is how far an acquisition has come.
type Phase uint8

const (
	Enqueuing Phase = iota // its key is not known to exist
	Settling               // the enqueue's answer was lost
	Waiting                // it waits for the end of its predecessor
	Querying               // the predecessor may be gone: a query decides
	Full                   // first in a semaphore's turnstile, and no slot is free
	Taking                 // first in a semaphore's turnstile, and taking a slot that was free
	Owner                  // it is first, or has a slot; a reading of the clock decides whether it holds
	Held
	Releasing // its key is being deleted, and the caller learns the result
	Undoing   // its key may exist and has to be deleted in the background
	Done
)

// A Key is a queue key as it was read. Names are used once (rule A1), so name and create revision
// identify it. The zero Key stands for none.
type Key struct {
	Name   string // the whole key
	Create int64  // the create revision
}

// Options are the options of an acquisition.
type Options struct {
	Handoffs bool // it receives handoffs and makes them, and its value is a lock's
	Shared   bool // it is held together with other shared ones; not with Handoffs
	Limit    int  // how many slots its semaphore has; not with any of the above
}

// A Machine is the state of one acquisition. The zero value, with Options, is its beginning.
//
// An acquisition of a set of names has a key in the queue of each, all with one create revision. It
// waits for one predecessor at a time, in any of the queues, and is held once it is the owner in
// all (rules ML1 to ML8).
//
// An acquisition of a semaphore first has a key in the turnstile, which is a queue like any other,
// and then the key of its slot instead (see slots.go).
//
// Only Apply changes it; its fields are for reading.
//
// Invariants: Own.Create is 0 until the enqueue is known to be applied. It does not change
// afterwards, except that a slot's key replaces the key in the turnstile, together with the
// evidence that the slot was taken. Evidence is set at most once, while End is Alive, and with it
// Phase becomes Owner, or Held at once if it was resumed. There is no other way to Held. Predecessor is zero before the enqueue is answered,
// and once Phase is Held. doubt holds values that were sent with a comparison to Mod and are not
// known to be applied or not. At most one of them is ever applied, and none once Mod moves.
type Machine struct {
	Options
	Phase    Phase
	End      End      // Alive until it has ended
	Evidence Evidence // what showed that it is the owner

	Own         Key             // its key, for a set the first one; Create is 0 until it is known to exist
	Mod         int64           // the last known modification revision of Own and of others, which the next write compares
	Predecessor Key             // the key that it waits for
	Successors  keys.Successors // the waiters known to come next, in order

	late      bool     // a copy of its enqueue was sent, and no answer says what became of it
	others    []string // a set's other keys, which have the create revision of Own
	preBroken bool     // the watch of the predecessor has ended

	doubt    doubt
	deletion deletion
	broken   uint64 // bit i: the watch of the key at index i, of at most 32, has ended
	slots    slots
}

// All, as the index of a key, means all keys of the acquisition.
const All = -1

// Begin returns the first state of an acquisition.
func Begin(o Options) Machine {
	alone := !o.Shared && o.Limit == 0
	o.Handoffs = o.Handoffs && alone // rules RW4, SM2
	return Machine{Options: o}
}

// set reports whether it is an acquisition of several names.
func (a *Machine) set() bool { return len(a.others) > 0 }

// indexOf returns the index of key among its keys. It returns false if key is none of them.
func (a *Machine) indexOf(key Key) (i int, ok bool) {
	if key == a.Own {
		return 0, true
	}
	i = slices.Index(a.others, key.Name)
	return i + 1, i >= 0 && key.Create == a.Own.Create
}

// watchOwn requests the watches of all its keys, starting at revision from.
func (a *Machine) watchOwn(from int64) Effects {
	a.slots.ownWatched = true
	fx := Effects{WatchOwn: true, From: from}
	if a.broken = 0; a.set() {
		fx.Own = All
	}
	return fx
}

// name returns the name of its key at index i.
func (a *Machine) name(i int) string {
	if i > 0 && i <= len(a.others) {
		return a.others[i-1]
	}
	return a.Own.Name
}

// Late reports whether a copy of its enqueue may still be applied (rule A5).
func (a *Machine) Late() bool { return a.late && a.Own.Create == 0 }

// Watched reports whether its key is watched, or was.
func (a *Machine) Watched() bool { return a.slots.ownWatched }

// WasReleased reports whether it was released, even if the result is not decided yet.
func (a *Machine) WasReleased() bool { return a.Phase == Releasing || a.deletion.decided }

// ReleaseDecided reports whether the result of a release is decided; the end says which it is.
func (a *Machine) ReleaseDecided() bool { return a.deletion.decided }

// An Event is something that happened to an acquisition. Each event's methods are in the file
// of its subject.
type Event interface {
	apply(a *Machine) Effects
}

// Effects are what package queue does after an event. The zero value is nothing.
type Effects struct {
	End    End   // it ended: notify of the end, and clean up at the server as End requires
	Held   bool  // it was held when it ended, so End is a loss unless it was released
	At     int64 // the foreign modification revision, of KeyOverwritten
	Wake   bool  // wake the goroutine that acquires
	Read   bool  // read its key in the background: the value shows who changed it
	Remove bool  // delete its keys in the background, until they are gone

	WatchOwn bool  // watch its key at index Own, starting at revision From
	Own      int   // the index, or All, of the key to watch, or of the one that was deleted or overwritten
	Rest     bool  // such a key ended it, and its other keys stay until it is released, or for one TTL (rule ML6)
	Follow   Key   // watch this predecessor's deletion, starting at revision From
	Unfollow bool  // first cancel the watch of the predecessor, or of the slots, if there is one
	From     int64 // of WatchOwn, Follow and FollowSlots

	FollowSlots bool // watch the slots' deletions, starting at revision From
	Unwatch     bool // cancel the watch of its key, if there is one: another key has replaced it

	Vacant bool // none of the keys of its enqueue exists or will exist

	Handoff bool    // the next deletion carries a handoff
	Exact   bool    // the next deletion also compares the modification revision
	Verdict Verdict // what a release or a rewrite does next
	Mod     int64   // the modification revision that the next put of a value compares
}

// Apply changes the state by ev and returns the effects.
func (a *Machine) Apply(ev Event) Effects { return ev.apply(a) }

// A Step is what the goroutine that acquires does next.
type Step uint8

const (
	Enqueue Step = iota // put a queue key
	Settle              // find out whether the enqueue was applied
	Sleep               // until woken
	Query               // read who owns
	Take                // take the slot of Slot
	Win                 // read the clock, and hold
	Return              // stop: it has ended, or is held
)

// Next returns what the goroutine that acquires does next. It follows from the state and is not
// stored.
func (a *Machine) Next() Step {
	switch {
	case a.End != Alive, a.Phase >= Held:
		return Return
	case a.Phase == Settling:
		return Settle
	case a.Phase == Waiting, a.Phase == Full:
		return Sleep
	case a.Phase == Taking:
		return Take
	case a.Phase == Querying:
		return Query
	case a.Phase == Owner:
		return Win
	}
	return Enqueue
}
