package session

import "github.com/pawl-locks/pawl/internal/clock"

// A Hook is a dependent's link in its session's roster. It is part of the dependent, so
// that the session allocates nothing for it. The session guards its fields.
type Hook struct {
	dependent  Dependent
	until      clock.Instant // when Limit ends the hold; zero if it does not
	ops        int           // as Several says; 0 means one
	prev, next *Hook
	in         *ring
}

// ring is a list of hooks in the order in which rounds read them.
type ring struct {
	first, last *Hook
	n           int
}

func (r *ring) push(h *Hook) {
	h.in, h.prev, h.next = r, r.last, nil
	if r.last == nil {
		r.first = h
	} else {
		r.last.next = h
	}
	r.last = h
	r.n++
}

// leave takes the hook out of the ring that it is in.
func (h *Hook) leave() {
	r := h.in
	if r == nil {
		return
	}
	if h.prev == nil {
		r.first = h.next
	} else {
		h.prev.next = h.next
	}
	if h.next == nil {
		r.last = h.prev
	} else {
		h.next.prev = h.prev
	}
	h.in, h.prev, h.next = nil, nil, nil
	r.n--
}

// take empties r and returns its dependents.
func (r *ring) take() []Dependent {
	dependents := make([]Dependent, 0, r.n)
	for r.first != nil {
		h := r.first
		h.leave()
		dependents = append(dependents, h.dependent)
	}
	return dependents
}

// ops is how many operations rounds need for all of r while they wait, each for one predecessor.
func (r *ring) ops() (n int) {
	for h := r.first; h != nil; h = h.next {
		n += max(h.ops, 1) + 1
	}
	return n
}
