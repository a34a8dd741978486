package session

import "github.com/pawl-locks/pawl/internal/clock"

// A Hook is a dependent's link in its session's roster. It is part of the dependent, so
// that the session allocates nothing for it. The session guards its fields.
type Hook struct {
	dependent  Dependent
	until      clock.Instant // when Limit ends the hold; zero if it does not
	keys       int           // how many keys of its own the dependent has; 0 means one
	more       int           // how many reads its Behind returns
	prev, next *Hook
	in         *ring
}

// Several sets how many keys of its own the dependent has. It is called before the
// dependent is added to the roster.
func (h *Hook) Several(keys int) { h.keys = keys }

// own is how many keys of its own the dependent has.
func (h *Hook) own() int { return max(h.keys, 1) }

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

// keys is how many keys rounds read for all of r while they wait: their own keys, and one
// predecessor for each.
func (r *ring) keys() (n int) {
	for h := r.first; h != nil; h = h.next {
		n += h.own() + 1
	}
	return n
}
