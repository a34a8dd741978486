package session

import (
	"fmt"

	"github.com/pawl-locks/pawl/internal/queue/state"
	"github.com/pawl-locks/pawl/lease"
)

// Check, unless nil, is called if an invariant of a session is broken after a step, with the session's mutex
// held. Then all invariants are examined after each step, and not just those of its entry. Tests set it, before
// there is a session.
var Check func(broken string)

// examine looks at the invariants after a step of e, which was in phase was. If one is broken, the session does
// not know what it holds or has promised. So it ends, with all that it holds, and its lease is left to expire.
// s.mu is held.
func (s *Session) examine(e *Entry, was state.Phase, ev state.Event, fx state.Effects) {
	broken := s.wrongIn(e)
	if Check != nil && broken == "" {
		broken = s.wrong()
	}
	if broken == "" {
		return
	}
	broken = fmt.Sprintf("%s, after %T in phase %d", broken, ev, was)
	if Check != nil {
		Check(fmt.Sprintf("%s: %+v, %+v", broken, ev, fx))
	}
	if s.ended.Load() == nil {
		if e.in == nil && e.dependent != nil && e.End == state.Alive {
			s.roster.add(e, e.dependent, true) // its callers learn of the end, too
		}
		err := fmt.Errorf("%w: this session is no longer trusted, because of a defect of pawl: %s", lease.ErrExpired, broken)
		go s.announce(s.mark(err, leave)) // without the mutex
	}
}

// wrongIn returns which of those invariants of e is broken that e alone shows, or "". s.mu is held.
func (s *Session) wrongIn(e *Entry) string {
	switch {
	case s.ended.Load() == nil && e.Phase == state.Held && e.End == state.Alive && (e.in != &s.roster.holding || e.Evidence == state.None):
		return fmt.Sprintf("entry %d is held, and not on the roster, or without evidence", e.number)
	case e.End != state.Alive && e.End != state.SessionEnded && e.in != nil:
		return fmt.Sprintf("entry %d has ended by %d, and is on the roster", e.number, e.End)
	case e.End == state.Alive && e.Phase > state.Held:
		return fmt.Sprintf("entry %d has not ended, and is in phase %d", e.number, e.Phase)
	case e.Late() && e.Phase > state.Settling && e.Phase != state.Undoing && e.Phase != state.Done:
		return fmt.Sprintf("entry %d is in phase %d, and a copy of its enqueue may be applied", e.number, e.Phase)
	case e.keeping != nil && !e.keeping.Ended.IsZero() && e.Phase < state.Held:
		return fmt.Sprintf("entry %d was never held, and its hold has ended", e.number)
	}
	return ""
}

// wrong returns which invariant of the session's book and roster is broken, or "". s.mu is held.
func (s *Session) wrong() string {
	b := &s.book
	counts := map[string]count{}
	for n, e := range b.entries {
		if broken := s.wrongIn(e); broken != "" {
			return broken
		}
		switch {
		case e.number != n, n < 1, n >= b.next:
			return fmt.Sprintf("entry %d is in the book as %d of %d", e.number, n, b.next)
		case len(e.keys) == 0:
			return fmt.Sprintf("entry %d has no keys", n)
		case e.Phase == state.Done && (e.extras() == 0 || e.Late()):
			return fmt.Sprintf("entry %d is done, and in the book", n)
		case n < b.inherited && e.Late():
			return fmt.Sprintf("entry %d is a predecessor's, and a copy of its enqueue may be applied", n)
		}
		if _, over := b.over[n]; over {
			return fmt.Sprintf("entry %d is over, and in the book", n)
		}
		for name := range e.names() {
			c := counts[name]
			counts[name] = count{c.entries + 1, max(c.last, n)}
		}
	}
	for name, c := range b.counts {
		if c.entries == 0 || c.entries != counts[name].entries || c.last < counts[name].last {
			return fmt.Sprintf("%q has %v by the count, and %v by the entries", name, c, counts[name])
		}
	}
	for n := range b.owed {
		if !b.mayAdopt(n) {
			return fmt.Sprintf("entry %d is owed, and not to be resumed", n)
		}
	}
	for _, r := range []*ring{&s.roster.waiting, &s.roster.holding} {
		n := 0
		for e := r.first; e != nil; e = e.next {
			if n++; e.in != r {
				return fmt.Sprintf("entry %d is in a ring that it does not know", e.number)
			}
		}
		if n != r.n {
			return fmt.Sprintf("a ring of %d counts %d", n, r.n)
		}
	}
	return ""
}
