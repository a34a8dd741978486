package table

import (
	"time"

	"github.com/pawl-locks/pawl/internal/clock"
)

// Look does what is due at now, and returns when it is next to be called at the latest.
// It is to be called at least every Beat, so that a stall is told from an idle time.
func (t *Table) Look(now clock.Instant) (next time.Duration) {
	t.look(now)
	next = t.Beat()
	for _, s := range t.sessions {
		if d := t.due(s, now); d < next {
			next = d
		}
	}
	return max(next, 0)
}

// Beat is a sixth of what the shortest session could notice of a stall.
func (t *Table) Beat() time.Duration { return t.cfg.MinTTL / 36 }

// due is how long nothing is due in s.
func (t *Table) due(s *session, now clock.Instant) time.Duration {
	if s.over || s.ended {
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

// look comes first in everything: whoever first sees that a time has come marks it. A
// stall is seen before what would have been due in it.
func (t *Table) look(now clock.Instant) {
	gap := now.Sub(t.looked)
	t.looked = now
	stalled := false
	for _, s := range t.sessions {
		if s.over || s.ended {
			if now.Sub(s.expiry) >= t.cfg.Keep {
				t.drop(s)
			}
			continue
		}
		if gap > s.ttl/6 {
			stalled = true
			t.forgive(s, now)
		}
		t.expire(s, now)
		for len(s.past) > 0 && now.Sub(s.past[0].ended) >= t.cfg.Keep {
			s.forgetFirst()
		}
	}
	if stalled {
		t.stalls++
	}
}

// forgive gives a session that could not be heard all of its time again (rule V9).
func (t *Table) forgive(s *session, now clock.Instant) {
	s.expiry = now.Add(s.ttl)
	for _, r := range s.rows {
		r.polled = now
	}
}

// expire ends what is due in s at now.
func (t *Table) expire(s *session, now clock.Instant) {
	s.over = !now.Before(s.expiry)
	for _, r := range s.rows {
		ref := Ref{s.id, r.id}
		switch {
		case r.state == Waiting && (s.over || !now.Before(r.polled.Add(s.ttl))):
			t.end(s, r, Effect{ref, Leave, ErrExpired})
		case r.state != Held:
		case !r.sent && (s.over || !now.Before(r.polled.Add(s.ttl))):
			t.end(s, r, Effect{ref, Return, ErrExpired})
		case s.over:
			t.end(s, r, Effect{ref, Forfeit, ErrExpired})
		case r.params.MaxHold > 0 && !now.Before(r.acquired.Add(r.params.MaxHold)):
			t.end(s, r, Effect{ref, Forfeit, ErrMaxHold})
		}
	}
}

func (t *Table) end(s *session, r *row, fx Effect) {
	t.retire(s, r, Lost, fx.Why)
	t.effects = append(t.effects, fx)
}
