package registry

import (
	"time"

	"github.com/pawl-locks/pawl/internal/clock"
)

// A Listed is one lock as an answer lists it.
type Listed struct {
	Ref   Ref
	State State
	Valid time.Duration // counted from the arrival of the request that is answered; only if Held
	Why   error         // if Lost
	Text  string        // of its Params

	end clock.Instant // until when its client may believe in it, by pawld's clock
}

// One is the lock of ref in an answer to a request that arrived at arrival. It returns false if the
// lock is not known.
func (t *Registry) One(ref Ref, arrival, now clock.Instant) (Listed, bool) {
	t.advance(now)
	s, r := t.row(ref)
	if r == nil {
		return Listed{}, false
	}
	return t.list(s, r, arrival, now), true
}

// All are the locks of a session in an answer to a request that arrived at arrival: every held
// one, and every lost one that is not settled.
func (t *Registry) All(id string, arrival, now clock.Instant) (all []Listed) {
	t.advance(now)
	s := t.session(id)
	if s == nil {
		return nil
	}
	for _, r := range s.lost { // first, because list may find that one is lost
		all = append(all, t.list(s, r, arrival, now))
	}
	for _, r := range s.live {
		if r.state == Held {
			all = append(all, t.list(s, r, arrival, now))
		}
	}
	return all
}

// list is r as an answer lists it. If it is held, list first promises until when (rules V2,
// V4).
func (t *Registry) list(s *session, r *row, arrival, now clock.Instant) Listed {
	l := Listed{Ref: Ref{s.id, r.id}, Text: r.params.Text}
	if r.state == Held {
		end := s.end(r)
		if err := r.holding.Promise(end); err != nil {
			t.retire(s, r, Lost, err)
		} else {
			r.sent = true
			if d := r.holding.Until(); d.Before(s.expiry) && r.params.Stall == 0 {
				t.counts.Cut++
			}
			l.end, l.Valid = end, Validity(end.Sub(arrival))
		}
	}
	l.State, l.Why = r.state, r.why
	return l
}
