package session

import "github.com/pawl-locks/pawl/internal/clock"

// A Hook is an acquisition's position in its session's roster, kept inside the acquisition so
// that an acquisition costs the session no allocation. The session guards its fields.
type Hook struct {
	acquisition Acquisition
	until       clock.Instant // when a hold ends; zero: not by itself
	keys        int           // how many own keys the acquisition has; 0: one
	prev, next  *Hook
	in          *ring
}

// Several says that the acquisition has this many own keys. It is called before the
// acquisition is added to the roster.
func (h *Hook) Several(keys int) { h.keys = keys }

// own is how many own keys the acquisition has.
func (h *Hook) own() int { return max(h.keys, 1) }

// ring is a list of hooks in the order in which they are to be read.
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

func (r *ring) drop(h *Hook) {
	if h.in != r {
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

// take empties r and returns its acquisitions.
func (r *ring) take() []Acquisition {
	acquisitions := make([]Acquisition, 0, r.n)
	for r.first != nil {
		h := r.first
		r.drop(h)
		acquisitions = append(acquisitions, h.acquisition)
	}
	return acquisitions
}

// keys is how many keys are to be read of all of r while it waits: the own ones, and
// one more for each.
func (r *ring) keys() (n int) {
	for h := r.first; h != nil; h = h.next {
		n += h.own() + 1
	}
	return n
}
