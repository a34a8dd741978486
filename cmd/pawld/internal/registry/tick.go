package registry

import (
	"time"

	"github.com/pawl-locks/pawl/internal/clock"
)

// Tick does what is due at now, and returns the time until it has to be called again. It has to be
// called at least every Beat, so that a stall can be distinguished from an idle time.
func (t *Registry) Tick(now clock.Instant) (next time.Duration) {
	t.advance(now)
	next = t.Beat()
	for id := range t.sessions {
		s := t.session(id)
		if (s.expired || s.ended) && now.Sub(s.expiry) >= t.cfg.Keep {
			t.drop(s)
		}
		for len(s.past) > 0 && now.Sub(s.past[0].ended) >= t.cfg.Keep {
			s.forget(0)
		}
		next = min(next, t.due(s, now))
	}
	return max(next, 0)
}

// Beat is a sixth of the stall that the shortest session could notice.
func (t *Registry) Beat() time.Duration { return t.cfg.MinTTL / 36 }

// due is how long nothing will be due in s.
func (t *Registry) due(s *session, now clock.Instant) time.Duration {
	if s.expired || s.ended {
		return t.cfg.Keep
	}
	next := s.expiry.Sub(now)
	for _, r := range s.rows {
		switch r.state {
		case Waiting:
			next = min(next, r.polled.Add(s.ttl).Sub(now))
		case Held:
			if !r.sent {
				next = min(next, r.polled.Add(s.ttl).Sub(now))
			}
			if r.params.MaxHold > 0 {
				next = min(next, r.acquired.Add(r.params.MaxHold).Sub(now))
			}
		}
	}
	return next
}

// advance is called first by every method, so that a stall is noticed before what became due during
// it. What is due in a session is done by the first call that finds the session. See session.
func (t *Registry) advance(now clock.Instant) {
	before := t.now
	gap := now.Sub(before)
	t.now = now
	if gap <= t.cfg.MinTTL/6 {
		return
	}
	for id, s := range t.sessions {
		if gap > s.ttl/6 && !s.expired && !s.ended {
			if t.now = before; !t.session(id).expired {
				t.forgive(s, now)
			}
			t.now = now
		}
	}
	t.counts.Stalls++
}

// session finds a session, and first does what is due in it.
func (t *Registry) session(id string) *session {
	s := t.sessions[id]
	if s != nil && !s.expired && !s.ended {
		t.expire(s, t.now)
	}
	return s
}

// forgive gives a session its whole TTL again because its requests could not arrive (rule V9).
func (t *Registry) forgive(s *session, now clock.Instant) {
	s.expiry = now.Add(s.ttl)
	for _, r := range s.rows {
		r.polled = now
	}
}

// expire ends what is due in s at now.
func (t *Registry) expire(s *session, now clock.Instant) {
	s.expired = !now.Before(s.expiry)
	for _, r := range s.rows {
		ref := Ref{s.id, r.id}
		switch {
		case r.state == Waiting && (s.expired || !now.Before(r.polled.Add(s.ttl))):
			t.end(s, r, Effect{ref, Leave, ErrExpired})
		case r.state != Held:
		case !r.sent && (s.expired || !now.Before(r.polled.Add(s.ttl))):
			t.counts.Orphans++
			t.end(s, r, Effect{ref, Return, ErrExpired})
		case s.expired:
			t.counts.Expired++
			t.end(s, r, Effect{ref, Forfeit, ErrExpired})
		case r.params.MaxHold > 0 && !now.Before(r.acquired.Add(r.params.MaxHold)):
			t.counts.Overheld++
			t.end(s, r, Effect{ref, Forfeit, ErrMaxHold})
		}
	}
}

func (t *Registry) end(s *session, r *row, fx Effect) {
	t.retire(s, r, Lost, fx.Why)
	t.effects = append(t.effects, fx)
}
