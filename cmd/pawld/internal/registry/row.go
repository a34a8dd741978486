package registry

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pawl-locks/pawl/internal/clock"
)

// A State is the state of a lock.
type State uint8

const (
	Waiting   State = iota + 1
	Held            // according to the registry
	Releasing       // its client released it, and the outcome is not known yet
	Released        // its client released it, and it was held until then
	Lost            // it was held or waited, and no longer does
	Left            // its client gave up the position, or released what it had not acquired; a tombstone
)

// A Holding is what the engine holds for a row.
type Holding interface {
	// Until is D, the first instant at which it is no longer held unless pawld's session is
	// renewed. It is the zero Instant once the session has ended.
	Until() clock.Instant
	// Promise is called before an answer lets a client believe, up to until, that it holds the lock
	// (rule V4). An error says why the lock has ended, and means that nothing was promised.
	Promise(until clock.Instant) error
}

// Params are the parameters that a repeat must have in common with the request.
type Params struct {
	Text    string        // all of them, encoded
	More    int           // how many names beside the first, each of which counts
	MaxHold time.Duration // 0 if none
	Stall   time.Duration `json:",omitempty"` // 0 if none; its Holding.Until has it
}

func (p Params) names() int { return 1 + p.More }

// A row is one lock or position.
type row struct {
	id       string
	params   Params
	state    State
	polled   clock.Instant // when the last Acquire arrived, or when it was won
	acquired clock.Instant
	sent     bool // an answer has listed it as held
	answered answered
	holding  Holding
	why      error         // if Lost
	ended    clock.Instant // when it ended
}

// The causes that originate in the registry.
var (
	ErrExpired = errors.New("the client's session expired")
	ErrMaxHold = errors.New("held for longer than max_hold_ms")
	ErrNotHeld = errors.New("not held")
)

// Acquire finds the lock or position of ref, in a session that was opened, or makes a position. If
// it returns fresh, it made one, and the caller has to enqueue for it. most bounds the locks and
// positions of this identity.
func (t *Registry) Acquire(ref Ref, p Params, most int, arrival, now clock.Instant) (fresh bool, err error) {
	t.advance(now)
	s := t.session(ref.Session)
	r := s.rows[ref.Request]
	if r == nil {
		return true, t.add(s, &row{id: ref.Request, params: p, state: Waiting, polled: arrival}, most)
	}
	switch {
	case r.state == Left || r.state == Released || r.state == Releasing:
		return false, &Error{Invalid, "request_id was released: each acquisition has one of its own"}
	case r.params != p:
		return false, &Error{Invalid, "request_id was used before, with other parameters"}
	}
	if r.polled.Before(arrival) {
		r.polled = arrival
	}
	return false, nil
}

// add adds a position to a session, unless a limit is reached.
func (t *Registry) add(s *session, r *row, most int) error {
	switch n := t.each[s.identity]; {
	case t.live+r.params.names() > t.cfg.Locks:
		return &Error{Full, fmt.Sprintf("there are %d locks and waiters, and may be no more than %d", t.live, t.cfg.Locks)}
	case n+r.params.names() > most:
		return &Error{Full, fmt.Sprintf("this identity has %d locks and waiters, and may have no more than %d", n, most)}
	}
	s.rows[r.id], s.live[r.id] = r, r
	s.most = max(s.most, len(s.live))
	s.dueAt(r.polled.Add(s.ttl))
	t.count(s, r)
	return nil
}

// maxPast is how many lost rows, and how many others that have ended, a session remembers. It
// remembers more if more were live at a time, because all may end at once, before the client has
// learned of any.
const maxPast = 128

// retire ends a row, which is remembered for a while, so that a repeat of a request finds that it
// has ended.
func (t *Registry) retire(s *session, r *row, st State, why error) {
	t.uncount(s, r)
	delete(s.live, r.id)
	r.state, r.why, r.holding, r.ended = st, why, nil, t.now
	if st == Left || st == Released {
		r.params = Params{} // a repeat is refused whatever it says, so remember little
	}
	s.remember(r)
}

// remember remembers r, which has ended, and drops the oldest of its kind beyond maxPast.
func (s *session) remember(r *row) {
	if all := s.past(r); len(*all) > max(maxPast, s.most) {
		s.forgetFirst(all)
	}
}

// past appends r, which has ended, to those of its kind, and returns these.
func (s *session) past(r *row) (all *[]*row) {
	if all = &s.gone; r.state == Lost {
		all = &s.lost
	}
	*all = append(*all, r)
	return all
}

// forgetFirst drops the oldest of all, which are the session's lost or gone ones.
func (s *session) forgetFirst(all *[]*row) {
	delete(s.rows, (*all)[0].id)
	(*all)[0] = nil
	*all = (*all)[1:]
}

// count counts a row that becomes live, and uncount one that no longer is.
func (t *Registry) count(s *session, r *row) {
	t.live += r.params.names()
	t.each[s.identity] += r.params.names()
}

func (t *Registry) uncount(s *session, r *row) {
	t.live -= r.params.names()
	if t.each[s.identity] -= r.params.names(); t.each[s.identity] == 0 {
		delete(t.each, s.identity)
	}
}

func (t *Registry) row(ref Ref) (*session, *row) {
	if s := t.session(ref.Session); s != nil {
		return s, s.rows[ref.Request]
	}
	return nil, nil
}

// Won records that the engine holds what the position of ref waited for. It returns false if no
// client wants it any more, and the caller has to release it.
func (t *Registry) Won(ref Ref, h Holding, now clock.Instant) bool {
	t.advance(now)
	s, r := t.row(ref)
	if r == nil || r.state != Waiting {
		return false
	}
	r.state, r.acquired, r.polled, r.holding = Held, now, now, h
	if r.params.MaxHold > 0 {
		s.dueAt(now.Add(r.params.MaxHold))
	}
	return true
}

// Lose records that the engine has lost a lock, or a position.
func (t *Registry) Lose(ref Ref, why error, now clock.Instant) {
	t.advance(now)
	if s, r := t.row(ref); r != nil && (r.state == Held || r.state == Waiting) {
		t.retire(s, r, Lost, why)
	}
}

// Forget removes the position of ref, which was refused, as if it had never been requested.
func (t *Registry) Forget(ref Ref) {
	if s, r := t.row(ref); r != nil && r.state == Waiting {
		t.uncount(s, r)
		delete(s.rows, r.id)
		delete(s.live, r.id)
	}
}

// Settle drops a row that the client knows has ended. One whose release is not decided yet is
// dropped later.
func (t *Registry) Settle(ref Ref) error {
	s, r := t.row(ref)
	switch {
	case r == nil, r.state == Releasing:
		return nil
	case r.live():
		return &Error{Invalid, fmt.Sprintf("settled names request_id %s, which has not ended", ref.Request)}
	}
	delete(s.rows, r.id)
	same := func(other *row) bool { return other == r }
	s.lost, s.gone = slices.DeleteFunc(s.lost, same), slices.DeleteFunc(s.gone, same)
	return nil
}

func (r *row) live() bool { return r.state == Waiting || r.state == Held || r.state == Releasing }
