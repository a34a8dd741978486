package registry

import "github.com/pawl-locks/pawl/internal/clock"

// Exited ends a session for good, because the one process that used it has exited, and nobody
// believes in its locks any more.
func (t *Registry) Exited(id string, now clock.Instant) {
	t.advance(now)
	s := t.session(id)
	if s == nil || s.ended {
		return
	}
	for _, r := range s.rows {
		ref := Ref{s.id, r.id}
		switch {
		case r.state == Waiting:
			t.end(s, r, Effect{ref, Leave, ErrExpired})
		case r.state == Held && r.sent:
			t.counts.Expired++
			t.end(s, r, Effect{ref, Abandon, ErrExpired})
		case r.state == Held:
			t.end(s, r, Effect{ref, Return, ErrExpired})
		}
	}
	s.ended = true
}
