package state

import (
	"slices"

	"github.com/pawl-locks/pawl/internal/keys"
)

// A Phase is how far an acquisition has come.
type Phase uint8

const (
	Enqueuing Phase = iota // its queue key is not known to exist
	Settling               // the enqueue's answer was lost
	Waiting                // for the end of its predecessor
	Querying               // the predecessor may be gone: a query decides
	Full                   // of a semaphore, first in the turnstile: no slot is free
	Taking                 // of a semaphore, first in the turnstile: a slot was free, and is being taken
	Owner                  // it is first, or has a slot: a reading of the clock decides whether it holds
	Held
	Releasing // its own key is being deleted, and the caller learns the result
	Undoing   // its own key may exist and has to be deleted in the background
	Done
)

// A Key is a queue key as it was read. Names are used once (rule A1), so name and create
// revision identify it. The zero Key is no key.
type Key struct {
	Name   string // the whole key
	Create int64  // the create revision
}

// Options are the options of an acquisition.
type Options struct {
	Handoffs bool // it receives handoffs and makes them; its value is then a lock's label
	Shared   bool // it is held together with other shared ones; without Handoffs
	Limit    int  // of a semaphore: how many slots it has; without any of the above
}

// A Machine is the state of one acquisition. The zero value, with Options, is its
// beginning.
//
// An acquisition of a set of names has a key in the queue of each, all with one create
// revision: it waits for one predecessor at a time, in any of the queues, and is held once it
// is the owner in all (rules ML1 to ML8).
//
// An acquisition of a semaphore first has a key in the turnstile, which is a queue like any
// other, and then the key of its slot instead: see slots.go.
//
// Only Apply changes it; its fields are for reading.
//
// Invariants: Own.Create is 0 until the enqueue is known to be applied, and does not change
// afterwards, except that a slot's key replaces the key in the turnstile, together with the
// evidence that it was taken. Evidence is set at most once, while End is Alive, and with it Phase
// becomes Owner, the only way to Held. Predecessor is zero before the enqueue is answered, and once Phase is
// Held. doubt holds values that were sent with a comparison to Mod and are not known to be
// applied or not, so at most one of them is ever applied, and none once Mod moves.
type Machine struct {
	Options
	Phase    Phase
	End      End      // Alive until it has ended
	Evidence Evidence // what showed that it is the owner

	Own         Key             // for a set the first one; Create is 0 until it is known to exist
	Mod         int64           // the last known modification revision of Own, which the next write compares; it is also that of others
	Predecessor Key             // the key that it waits for
	Successors  keys.Successors // the waiters known to come next, in order

	others    []string // a set's other own keys; they have the create revision of Own
	preBroken bool     // the watch of the predecessor has ended

	doubt    doubt
	deletion deletion
	broken   uint64 // bit i: the watch of its own key at index i, of at most 32, has ended
	slots    slots
}

// All, as the index of an own key, means all of them.
const All = -1

// Begin is the first state of an acquisition.
func Begin(o Options) Machine {
	alone := !o.Shared && o.Limit == 0
	o.Handoffs = o.Handoffs && alone // rules RW4, SM2
	return Machine{Options: o}
}

// set reports whether it is an acquisition of several names.
func (a *Machine) set() bool { return len(a.others) > 0 }

// indexOf is the index of key among its own keys; false: it is none of them.
func (a *Machine) indexOf(key Key) (i int, ok bool) {
	if key == a.Own {
		return 0, true
	}
	i = slices.Index(a.others, key.Name)
	return i + 1, i >= 0 && key.Create == a.Own.Create
}

// watchOwn requests the watches of all its own keys from revision from on.
func (a *Machine) watchOwn(from int64) Effects {
	a.slots.ownWatched = true
	fx := Effects{WatchOwn: true, From: from}
	if a.broken = 0; a.set() {
		fx.Own = All
	}
	return fx
}

// name is the name of its own key at index i.
func (a *Machine) name(i int) string {
	if i > 0 && i <= len(a.others) {
		return a.others[i-1]
	}
	return a.Own.Name
}

// WasReleased reports whether it was released, even if the result is not decided yet.
func (a Machine) WasReleased() bool { return a.Phase == Releasing || a.deletion.decided }

// ReleaseDecided reports whether the result of a release is decided; the end says which it is.
func (a Machine) ReleaseDecided() bool { return a.deletion.decided }

// An Event is something that happened to an acquisition. Each event's methods are in the file
// of its subject.
type Event interface {
	apply(a *Machine) Effects
}

// Effects are what package queue does after an event. The zero value is nothing.
type Effects struct {
	End    End   // it ended: notify of the end, and clean up at the server as End requires
	Held   bool  // of End: it was held, so that the end is a loss unless it was released
	At     int64 // of KeyOverwritten: the foreign modification revision
	Wake   bool  // wake the goroutine that acquires
	Read   bool  // read its own key in the background: the value shows who changed it
	Remove bool  // delete its own key in the background, until it is gone

	WatchOwn bool  // watch its own key at index Own from revision From on
	Own      int   // of WatchOwn, and of an End by a deleted or overwritten key: the index of its own key, or All
	Rest     bool  // of such an End: its other own keys stay until it is released, or for one TTL (rule ML6)
	Follow   Key   // watch this predecessor's deletion from revision From on
	Unfollow bool  // first cancel the watch of the predecessor, or of the slots, if there is one
	From     int64 // of WatchOwn, Follow and FollowSlots

	FollowSlots bool // watch the slots' deletions from revision From on
	Unwatch     bool // cancel the watch of its own key, if there is one: another key has become its own

	Handoff bool    // the next deletion carries a handoff
	Exact   bool    // the next deletion also compares the modification revision
	Verdict Verdict // what a release, or a rewrite, does next
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
	Return              // it has ended, or is held
)

// Next is what the goroutine that acquires does next. It follows from the state and is
// not stored.
func (a Machine) Next() Step {
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
