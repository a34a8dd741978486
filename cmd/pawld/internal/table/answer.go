package table

import (
	"time"

	"github.com/pawl-locks/pawl/internal/clock"
)

// A Listed is one lock as an answer lists it.
type Listed struct {
	Ref   Ref
	State State
	Valid time.Duration // from the arrival of the request that is answered; only if Held
	Why   error         // if Lost
	Text  string        // of its Params
}

// One is the lock of ref in an answer to a request that arrived at arrival. false: it is not
// known.
func (t *Table) One(ref Ref, arrival, now clock.Instant) (Listed, bool) {
	t.advance(now)
	s, r := t.row(ref)
	if r == nil {
		return Listed{}, false
	}
	return t.list(s, r, arrival, now), true
}

// All are the locks of a session in an answer to a request that arrived at arrival: every held
// one, and every lost one that is not settled.
func (t *Table) All(id string, arrival, now clock.Instant) (all []Listed) {
	t.advance(now)
	s := t.session(id)
	if s == nil {
		return nil
	}
	for _, r := range s.rows {
		if r.state == Held || r.state == Lost {
			all = append(all, t.list(s, r, arrival, now))
		}
	}
	return all
}

// list is r as an answer lists it. If it is held, list first promises until when (rules V2,
// V4).
func (t *Table) list(s *session, r *row, arrival, now clock.Instant) Listed {
	l := Listed{Ref: Ref{s.id, r.id}, Text: r.params.Text}
	if r.state == Held {
		end := s.end(r)
		if err := r.holding.Promise(end); err != nil {
			t.retire(s, r, Lost, err)
		} else {
			r.sent = true
			if d := r.holding.Until(); d.Before(s.expiry) {
				t.counts.Cut++
			}
			l.Valid = Belief(end.Sub(arrival))
		}
	}
	l.State, l.Why = r.state, r.why
	return l
}

// end is until when a client may believe that it holds r, by pawld's own clock (rule V2).
func (s *session) end(r *row) clock.Instant {
	end := s.expiry
	if d := r.holding.Until(); d.Before(end) {
		end = d
	}
	if r.params.MaxHold > 0 {
		if limit := r.acquired.Add(r.params.MaxHold); limit.Before(end) {
			end = limit
		}
	}
	return end
}

// Belief is how much of a time on pawld's clock a client gets: five sixths, in whole
// milliseconds, so that clocks whose rates differ by up to a tenth do no harm.
func Belief(d time.Duration) time.Duration {
	return max(d-(d+5)/6, 0).Truncate(time.Millisecond)
}

// Shortest is the shortest belief of the held ones; most if none is held.
func Shortest(all []Listed, most time.Duration) time.Duration {
	for _, l := range all {
		if l.State == Held {
			most = min(most, l.Valid)
		}
	}
	return most
}
