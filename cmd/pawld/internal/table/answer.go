package table

import (
	"time"

	"github.com/pawl-locks/pawl/internal/clock"
)

// A Listed is one lock as an answer lists it.
type Listed struct {
	Ref   Ref
	State State
	Valid time.Duration // from the arrival of the request that is answered; of Held alone
	Why   error         // of Lost
	Text  string        // of its Params
}

// One is the lock of ref in an answer to a request that came at arrival. false: it is not
// known.
func (t *Table) One(ref Ref, arrival, now clock.Instant) (Listed, bool) {
	t.look(now)
	s, r := t.row(ref)
	if r == nil {
		return Listed{}, false
	}
	return t.list(s, r, arrival, now), true
}

// All are the locks of a session in an answer to a request that came at arrival: every one
// that is held, and every one that was lost and is not settled.
func (t *Table) All(id string, arrival, now clock.Instant) (all []Listed) {
	t.look(now)
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

// list is r as it stands; where it is held, until when is promised first (rules V2, V4).
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

// end is until when r may be believed in, by pawld's own clock (rule V2).
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

// Belief is what a client gets of a time on pawld's clock: five sixths, so that clocks
// whose rates differ by up to a tenth of each other do no harm, in whole milliseconds.
func Belief(d time.Duration) time.Duration {
	return max(d-(d+5)/6, 0).Truncate(time.Millisecond)
}

// Shortest is the shortest belief of those listed as held; most where none is.
func Shortest(all []Listed, most time.Duration) time.Duration {
	for _, l := range all {
		if l.State == Held {
			most = min(most, l.Valid)
		}
	}
	return most
}
