package session

import (
	"time"

	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/internal/queue/state"
)

// Step gives ev to the Machine of e, records in the book what follows from it, and returns the effects that
// are left to be carried out. The caller holds the mutex. Once the session has ended, nothing is won, so that
// a Handle never leaves out a key that nobody holds.
func (s *Session) Step(e *Entry, ev state.Event) state.Effects {
	if _, wins := ev.(state.Won); wins && s.ended.Load() != nil {
		return state.Effects{}
	}
	was := e.Phase
	fx := e.Apply(ev)
	if fx.End != state.Alive {
		s.endEntry(e, fx)
	}
	if e.Phase == state.Held && was != state.Held {
		s.roster.add(e, e.dependent, true)
		if !e.Watched() {
			s.roster.armLater(e, time.Now())
		}
	}
	s.settle(e, was, fx)
	s.examine(e, was, ev, fx)
	return fx
}

// endEntry records the end of e. s.mu is held.
func (s *Session) endEntry(e *Entry, fx state.Effects) {
	e.leave()
	switch {
	case fx.End == state.GivenBack && e.keeping != nil:
		e.keeping.Promised = clock.Instant{} // the release withdraws it
	case !fx.Held, fx.Verdict == state.Lost, fx.End == state.GivenBack:
	case fx.Rest, fx.End == state.KeyOverwritten, fx.End == state.HeldTooLong:
		k := e.keep()
		k.Ended = clock.Now()
		if fx.Rest {
			k.Unclaimed = k.Ended.Add(s.TTL())
		}
	}
}

// settle records what is left of the keys of e after a step from the phase was, and has them removed if
// the step says so. s.mu is held.
func (s *Session) settle(e *Entry, was state.Phase, fx state.Effects) {
	if e.Phase == state.Done && fx.Verdict == state.Finished {
		e.cancelled, e.ownerKey = false, false // the release has deleted them
	}
	switch {
	case !s.book.has(e):
	case fx.Vacant, e.Phase == state.Done && e.extras() == 0:
		s.book.strike(e)
	case e.Phase == state.Done && was != state.Done:
		e.keeping = nil // its keys are gone, and what was put beside them follows
		s.remove(e)
	case fx.Remove:
		s.removeKept(e)
	}
}

// absent records that none of the keys of e exists or will exist, the cancel key and the owner key included,
// because they were removed. s.mu is held.
func (s *Session) absent(e *Entry) {
	e.cancelled, e.ownerKey = false, false
	s.book.strike(e)
}
