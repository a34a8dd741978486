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
// Invariants: own.Create is 0 until the enqueue is known to be applied, and does not change
// afterwards, except that a slot's key replaces the key in the turnstile, together with the
// evidence that it was taken. evidence is set at most once, while end is Alive, and with it phase
// becomes Owner, the only way to Held. predecessor is zero before the enqueue is answered, and once phase is
// Held. doubt holds values that were sent with a comparison to mod and are not known to be
// applied or not, so at most one of them is ever applied, and none once mod moves.
type Machine struct {
	Options
	phase     Phase
	end       End
	evidence  Evidence
	preBroken bool // the watch of the predecessor has ended

	own         Key
	others      []string // a set's other own keys; they have own's create revision
	mod         int64    // own's last known modification revision; it is also that of others
	predecessor Key
	successors  keys.Successors // the waiters known to come next, in order

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
	if key == a.own {
		return 0, true
	}
	i = slices.Index(a.others, key.Name)
	return i + 1, i >= 0 && key.Create == a.own.Create
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
	return a.own.Name
}

// Phase is how far the acquisition has come.
func (a *Machine) Phase() Phase { return a.phase }

// Ended is how it ended, or Alive.
func (a *Machine) Ended() End { return a.end }

// Own is its own key, for a set the first one; Create is 0 until the key is known to exist.
func (a *Machine) Own() Key { return a.own }

// Mod is its own key's last known modification revision, which the next write compares.
func (a *Machine) Mod() int64 { return a.mod }

// Predecessor is the key that it waits for, or the zero Key.
func (a *Machine) Predecessor() Key { return a.predecessor }

// WasReleased reports whether it was released, even if the result is not decided yet.
func (a *Machine) WasReleased() bool { return a.phase == Releasing || a.deletion.decided }

// ReleaseDecided reports whether the result of a release is decided; the end says which it is.
func (a *Machine) ReleaseDecided() bool { return a.deletion.decided }

// Evidence is what showed that it is the owner, or None.
func (a *Machine) Evidence() Evidence { return a.evidence }

// Successors are the waiters known to come next.
func (a *Machine) Successors() keys.Successors { return a.successors }

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
func (a *Machine) Next() Step {
	switch {
	case a.end != Alive, a.phase >= Held:
		return Return
	case a.phase == Settling:
		return Settle
	case a.phase == Waiting, a.phase == Full:
		return Sleep
	case a.phase == Taking:
		return Take
	case a.phase == Querying:
		return Query
	case a.phase == Owner:
		return Win
	}
	return Enqueue
}
