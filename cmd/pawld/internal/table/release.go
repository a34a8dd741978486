package table

import "github.com/pawl-locks/pawl/internal/clock"

// Release takes the client's word that it is done with ref, in a session that was touched.
// What it returns is the state from now on: Releasing has to be carried out, by the caller that
// calls, and Released called with what came of it.
func (t *Table) Release(ref Ref, now clock.Instant) (st State, why error) {
	t.look(now)
	s, r := t.row(ref)
	if r == nil { // so that an Acquire that comes later is refused (rule V6)
		r = &row{id: ref.Request, state: Left, why: ErrNotHeld, ended: now}
		s.rows[r.id] = r
		s.remember(r)
	}
	switch r.state {
	case Waiting:
		t.retire(s, r, Left, ErrNotHeld)
		t.effects = append(t.effects, Effect{ref, Leave, ErrNotHeld})
	case Held:
		r.state = Releasing
	}
	return r.state, r.why
}

// Released says what came of a release; nil: it was held until then.
func (t *Table) Released(ref Ref, err error) {
	s, r := t.row(ref)
	switch {
	case r == nil || r.state != Releasing:
	case err != nil:
		t.retire(s, r, Lost, err)
	default:
		t.retire(s, r, Released, nil)
	}
}

// Requests are those of a session that are not known to have been released.
func (t *Table) Requests(id string) (refs []Ref) {
	for request, r := range t.session(id).rows {
		if r.state != Left && r.state != Released {
			refs = append(refs, Ref{id, request})
		}
	}
	return refs
}

// Ended marks a session all of whose locks were released: it is known as such for a
// while, so that a late Acquire is refused.
func (t *Table) Ended(id string) {
	s := t.session(id)
	if s == nil {
		return
	}
	s.ended = len(s.rows) == len(s.past) // otherwise one came meanwhile
}
