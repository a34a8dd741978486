package state

import (
	"slices"

	"github.com/pawl-locks/pawl/internal/keys"
)

// A Phase is how far an acquisition has come.
type Phase uint8

const (
	Enqueuing Phase = iota // its queue key is not known to be there
	Settling               // the enqueue's answer was lost
	Waiting                // for the end of its predecessor
	Querying               // the predecessor may be gone: a query decides
	Full                   // of a semaphore, first in the turnstile: no slot is free
	Taking                 // of a semaphore, first in the turnstile: a slot was free, and is taken now
	Held
	Releasing // the own key is being deleted, and the caller learns what was found
	Undoing   // the own key may be there and has to be deleted, in the background
	Done
)

// A Key is a queue key as it was seen. Names are used once (rule A1), so there is no
// other key with both. The zero Key is none.
type Key struct {
	Name   string // whole
	Create int64  // the create revision
}

// Options are what an acquisition is asked for.
type Options struct {
	Handoffs bool // it takes handoffs, and gives them; its value is a lock's label then
	Delay    bool // it waits once before it succeeds a holder that did not release
	Shared   bool // it holds together with other shared ones; neither of the above then
	Limit    int  // it takes a slot of a semaphore, of which there are so many; none of the above then
}

// An Acquisition is the state of one acquisition. The zero value, with Options, is one
// that begins.
//
// An acquisition of a set of names has a key in the queue of each, all with one create
// revision: it waits for one predecessor in any of them, and is held once it is the owner in
// all (rules ML1 to ML8).
//
// One that takes a slot of a semaphore has a key in the turnstile first, which is a queue
// like any other, and then that of its slot in its place: see slots.go.
//
// Invariants: own.Create is 0 until the enqueue is known to be applied, and never
// changes then, except that the key of a slot takes the place of that in the turnstile, with
// the evidence that it was taken. evidence is set at most once, while end is Alive. phase is Held only
// with evidence. predecessor is zero before the enqueue is answered, and once it is
// Held. doubt holds values that were sent with a comparison to mod and that are not
// known to be applied or not, so at most one of them ever is, and none once mod moves.
type Acquisition struct {
	Options
	phase     Phase
	end       End
	evidence  Evidence
	expecting bool // the predecessor's release was to be a handoff to own
	sawShared bool // of one with Delay: a shared key was its predecessor
	preBroken bool // the watch of the predecessor has ended

	own         Key
	others      []string // the other own keys of a set, which have own's create revision
	mod         int64    // own's modification revision, as far as it is known; others never have another than the first
	predecessor Key
	deletedAt   int64           // the revision of the predecessor's deletion; 0: not known
	successors  keys.Successors // those known to be behind, in order

	doubt    doubt
	deletion deletion
	broken   uint64 // of each own key, by its place, whether its watch has ended
	slots    slots
}

// MaxKeys is how many own keys an acquisition has at the most.
const MaxKeys = 64

// All is, of an own key's place, all of them.
const All = -1

// Begin is the state of an acquisition that begins.
func Begin(o Options) Acquisition {
	alone := !o.Shared && o.Limit == 0
	o.Handoffs, o.Delay = o.Handoffs && alone, o.Delay && alone // rules RW4, SM2
	return Acquisition{Options: o}
}

// Resumed is the state of an acquisition whose key, with modification revision mod, and
// whose other keys a query showed first in their queues on a session that was taken over.
func Resumed(own Key, mod int64, others ...string) Acquisition {
	return Acquisition{phase: Held, own: own, mod: mod, others: others, evidence: ByResuming}
}

// set reports whether it has keys of several names.
func (a *Acquisition) set() bool { return len(a.others) > 0 }

// place is that of the own key with this name; false: it is none.
func (a *Acquisition) place(key Key) (i int, ok bool) {
	if key == a.own {
		return 0, true
	}
	i = slices.Index(a.others, key.Name)
	return i + 1, i >= 0 && key.Create == a.own.Create
}

// watchOwn asks for the watches of all own keys from revision from on.
func (a *Acquisition) watchOwn(from int64) Effects {
	a.slots.ownWatched = true
	fx := Effects{WatchOwn: true, From: from}
	if a.broken = 0; a.set() {
		fx.Own = All
	}
	return fx
}

// name is that of the own key at place.
func (a *Acquisition) name(place int) string {
	if place > 0 && place <= len(a.others) {
		return a.others[place-1]
	}
	return a.own.Name
}

// Phase is how far it has come.
func (a *Acquisition) Phase() Phase { return a.phase }

// Ended is how it ended, or Alive.
func (a *Acquisition) Ended() End { return a.end }

// Own is the own key, of a set the first; its Create is 0 until the key is known to be there.
func (a *Acquisition) Own() Key { return a.own }

// Mod is the own key's modification revision, as far as it is known: what the next
// write compares.
func (a *Acquisition) Mod() int64 { return a.mod }

// Predecessor is the key that is waited for, or the zero Key, and the revision of its
// deletion, or 0.
func (a *Acquisition) Predecessor() (Key, int64) { return a.predecessor, a.deletedAt }

// Releases reports whether it was given back: a release decides, or has decided, what
// became of it.
func (a *Acquisition) Releases() bool { return a.phase == Releasing || a.deletion.decided }

// Released reports whether a release has decided what became of it; its end says what.
func (a *Acquisition) Released() bool { return a.deletion.decided }

// Evidence is what made it the owner, or None.
func (a *Acquisition) Evidence() Evidence { return a.evidence }

// Successors are those known to be behind.
func (a *Acquisition) Successors() keys.Successors { return a.successors }

// A Step is what the goroutine that acquires does next.
type Step uint8

const (
	Enqueue      Step = iota // put a queue key
	Settle                   // find out whether the enqueue was applied
	Sleep                    // until woken
	SleepBriefly             // until woken, or until a handoff that is expected is late
	Query                    // read who owns
	Take                     // take the slot that Slot says
	Win                      // look at the clock, and hold
	Return                   // it has ended, or holds
)

// Next is what the goroutine that acquires does next. It follows from the state and is
// not stored.
func (a *Acquisition) Next() Step {
	switch {
	case a.end != Alive, a.phase >= Held:
		return Return
	case a.evidence != None:
		return Win
	case a.phase == Settling:
		return Settle
	case a.phase == Waiting && a.expecting:
		return SleepBriefly
	case a.phase == Waiting, a.phase == Full:
		return Sleep
	case a.phase == Taking:
		return Take
	case a.phase == Querying:
		return Query
	}
	return Enqueue
}
