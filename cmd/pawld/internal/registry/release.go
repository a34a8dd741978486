package registry

import "github.com/pawl-locks/pawl/internal/clock"

// Release records that the client is done with ref, in a session that was touched, and returns the
// new state. If that is Releasing, the caller has to carry out the release, and to call Released
// with the result.
func (t *Registry) Release(ref Ref, now clock.Instant) (st State, why error) {
	t.advance(now)
	s, r := t.row(ref)
	switch {
	case s == nil: // the session was dropped after it was touched, which it is only without unfinished rows
		return Left, ErrNotHeld
	case r == nil: // so that an Acquire that comes later is refused (rule V6)
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

// Released records the result of a release, which is nil if it was held until then.
func (t *Registry) Released(ref Ref, err error) {
	s, r := t.row(ref)
	switch {
	case r == nil || r.state != Releasing:
	case err != nil:
		t.retire(s, r, Lost, err)
	default:
		t.retire(s, r, Released, nil)
	}
}

// Requests are the requests of a session that are not known to have been released.
func (t *Registry) Requests(id string) (refs []Ref) {
	for request, r := range t.session(id).rows {
		if r.state != Left && r.state != Released {
			refs = append(refs, Ref{id, request})
		}
	}
	return refs
}

// Ended marks a session whose locks were all released. It is remembered for a while, so that a late
// Acquire is refused.
func (t *Registry) Ended(id string) {
	s := t.session(id)
	if s == nil {
		return
	}
	s.ended = len(s.live) == 0 // otherwise a new one was added meanwhile
}
