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
		for _, past := range []*[]*row{&s.lost, &s.gone} {
			for len(*past) > 0 && now.Sub((*past)[0].ended) >= t.cfg.Keep {
				s.forgetFirst(past)
			}
		}
		if s.expired || s.ended {
			next = min(next, t.cfg.Keep)
		} else {
			next = min(next, s.soon.Sub(now))
		}
	}
	return max(next, 0)
}

// Beat is a sixth of the stall that the shortest session could notice.
func (t *Registry) Beat() time.Duration { return t.cfg.MinTTL / 36 }

// dueAt notes that something may be due in s at an instant.
func (s *session) dueAt(at clock.Instant) {
	if at.Before(s.soon) {
		s.soon = at
	}
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
	for _, r := range s.live {
		r.polled = now
	}
}

// expire ends what is due in s at now, and notes when something is due next.
func (t *Registry) expire(s *session, now clock.Instant) {
	if now.Before(s.soon) {
		return
	}
	s.expired, s.soon = !now.Before(s.expiry), s.expiry
	for _, r := range s.live {
		t.looked++
		ref, unheard := Ref{s.id, r.id}, r.polled.Add(s.ttl) // then its client is gone
		limit := r.acquired.Add(r.params.MaxHold)
		switch {
		case r.state == Waiting && (s.expired || !now.Before(unheard)):
			t.end(s, r, Effect{ref, Leave, ErrExpired})
		case r.state == Waiting:
			s.dueAt(unheard)
		case r.state != Held:
		case !r.sent && (s.expired || !now.Before(unheard)):
			t.counts.Orphans++
			t.end(s, r, Effect{ref, Return, ErrExpired})
		case s.expired:
			t.counts.Expired++
			t.end(s, r, Effect{ref, Forfeit, ErrExpired})
		case r.params.MaxHold > 0 && !now.Before(limit):
			t.counts.Overheld++
			t.end(s, r, Effect{ref, Forfeit, ErrMaxHold})
		default:
			if !r.sent {
				s.dueAt(unheard)
			}
			if r.params.MaxHold > 0 {
				s.dueAt(limit)
			}
		}
	}
}

func (t *Registry) end(s *session, r *row, fx Effect) {
	t.retire(s, r, Lost, fx.Why)
	t.effects = append(t.effects, fx)
}
