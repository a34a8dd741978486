package session

import (
	"time"

	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/queue/state"
)

// The tests of this package do to entries what package queue does, by these functions. They name an
// entry by its number.

// step gives events to entry n.
func step(s *Session, n int64, events ...state.Event) (fx state.Effects) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.book.entries[n]; e != nil {
		for _, ev := range events {
			fx = s.Step(e, ev)
		}
	}
	return fx
}

// opens begins an entry with a key in each of several queues.
func opens(s *Session, specs ...keys.Spec) (n int64, own []string, err error) {
	e := &Entry{Machine: state.Begin(state.Options{})}
	own, _, err = s.Begin(e, &dependent{}, false, specs...)
	return e.number, own, err
}

// begin begins an entry with one key in the queue with this prefix.
func begin(s *Session, prefix string) (n int64, key string, err error) {
	n, own, err := opens(s, keys.Spec{Prefix: prefix})
	if err != nil {
		return 0, "", err
	}
	return n, own[0], nil
}

// isAnswered says that no copy of the enqueue of entry n can be applied any more.
func isAnswered(s *Session, n int64) { step(s, n, state.AnswerLost{Answered: true}) }

// wins makes entry n, which no dependent has, held.
func wins(s *Session, n int64) {
	step(s, n, state.Enqueued{Own: state.Key{Name: "own", Create: 1}, Whole: true, Revision: 1}, state.Won{})
}

// isUnwanted says that nobody wants entry n any more. It is not removed yet.
func isUnwanted(s *Session, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.book.entries[n]; e != nil {
		e.Apply(state.AnswerLost{})
		e.Apply(state.GaveUp{})
	}
}

// isUnreleased ends the hold of entry n otherwise than by its release.
func isUnreleased(s *Session, n int64) { step(s, n, state.HoldExpired{}) }

// isAbsent says that the keys of entry n do not exist and never will.
func isAbsent(s *Session, n int64) { step(s, n, state.NotPut{}) }

// leaves has entry n removed.
func leaves(s *Session, n int64) {
	step(s, n, state.AnswerLost{}, state.GaveUp{})
	s.mu.Lock()
	e := s.book.entries[n]
	s.mu.Unlock()
	if e != nil && e.lost() {
		s.Leave(e)
	}
}

// adopt resumes entry n, which the session's predecessor left.
func adopt(s *Session, n int64, own ...string) bool {
	ok, err := s.Adopt(&Entry{}, &dependent{}, state.Resumed(state.Key{Name: own[0], Create: 1}, 1), n, own...)
	return ok && err == nil
}

// waits adds d to the roster as one that waits.
func (d *dependent) waits(s *Session) error { return s.Join(&d.entry, d) }

// holds adds d to the roster as one that holds entry n, or 0 if it has none.
func (d *dependent) holds(s *Session, n int64, arm bool) error {
	if n != 0 {
		wins(s, n)
	}
	return s.unlessEnded(func() error {
		e := &d.entry
		if n != 0 {
			e = s.book.entries[n]
		}
		s.roster.add(e, d, true)
		if arm {
			s.roster.armLater(e, time.Now())
		}
		return nil
	})
}

// drops removes d from the roster.
func (d *dependent) drops(s *Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d.entry.leave()
}

// reads sets how many operations the reads of d have.
func (d *dependent) reads(s *Session, ops int) { s.SetReads(&d.entry, ops) }

// limits has the hold of d end after most.
func (d *dependent) limits(s *Session, most time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Limit(&d.entry, Limits{Max: most})
}
