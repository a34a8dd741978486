package session

import (
	"time"

	"github.com/pawl-locks/pawl/internal/clock"
)

// A roster holds the dependents of a session: waiting ones, which every round reads; held ones, which
// rounds read in rotation and which may have a limit; and those to be armed. It is pure except for its
// timer. Its session guards it.
type roster struct {
	waiting ring
	holding ring
	arming  []armed     // in the order in which they are due
	timer   *time.Timer // wakes the renewer for the first of them
	limited bool        // some hold has, or had, a limit
	next    time.Time   // when endInTime wakes at the latest
}

// armed is a dependent to be armed at a time.
type armed struct {
	entry *Entry
	at    time.Time
}

func newRoster(wake func()) roster {
	r := roster{timer: time.AfterFunc(ArmDelay, wake)}
	r.timer.Stop()
	return r
}

// add adds d as held or waiting, and removes it from where it was.
func (r *roster) add(h *Entry, d Dependent, held bool) {
	h.dependent = d
	h.leave()
	if held {
		r.holding.push(h)
	} else {
		r.waiting.push(h)
	}
}

// close empties the roster and returns its dependents.
func (r *roster) close() []Dependent {
	r.arming = nil
	r.timer.Stop()
	return append(r.waiting.take(), r.holding.take()...)
}

// armLater has the dependent of h armed ArmDelay after now, unless it is dropped earlier.
func (r *roster) armLater(h *Entry, now time.Time) {
	r.arming = append(r.arming, armed{h, now.Add(ArmDelay)})
	if len(r.arming) == 1 {
		r.timer.Reset(ArmDelay)
	}
}

// due removes and returns the dependents to be armed at now. It also returns when the next is due, or
// the zero Time if there is none. It skips dropped ones, due or not, so that a burst of short holds
// does not wake the renewer for each.
func (r *roster) due(now time.Time) (due []Dependent, next time.Time) {
	i := 0
	for ; i < len(r.arming); i++ {
		h := r.arming[i].entry
		if h.in == nil {
			continue
		}
		if r.arming[i].at.After(now) {
			break
		}
		due = append(due, h.dependent)
	}
	r.arming = append(r.arming[:0], r.arming[i:]...)
	clear(r.arming[len(r.arming):cap(r.arming)])
	if len(r.arming) > 0 {
		next = r.arming[0].at
	}
	return due, next
}

// limit bounds the hold of h, and reports whether endInTime has to wake for it. It is called at now.
func (r *roster) limit(h *Entry, b *Bound, now clock.Instant) bool {
	h.bound.Store(b)
	r.limited = true
	return b.Ends().Time(now).Before(r.next)
}

// overdue returns the dependents whose holds have reached their limit at now, and when
// endInTime has to wake: at next, or when the next hold reaches its limit, if that is earlier.
func (r *roster) overdue(now clock.Instant, next time.Time) (expired []Dependent, wakes time.Time) {
	for h := r.holding.first; h != nil && r.limited; h = h.next {
		switch b := h.bound.Load(); {
		case b == nil:
		case !now.Before(b.Ends()):
			expired = append(expired, h.dependent)
		case b.Ends().Time(now).Before(next):
			next = b.Ends().Time(now)
		}
	}
	r.next = next
	return expired, next
}

// round chooses what a round reads, most operations at most: every waiting dependent, and as many
// held ones as fit, in rotation.
func (r *roster) round(most int) []Dependent {
	dependents := make([]Dependent, 0, r.waiting.n+min(r.holding.n, most))
	room := max(most-r.waiting.ops(), fewHolders)
	for n := r.holding.n; n > 0 && room > 0; n-- {
		h := r.holding.first
		h.leave()
		r.holding.push(h)
		dependents = append(dependents, h.dependent)
		room -= max(h.ops, 1)
	}
	for h := r.waiting.first; h != nil; h = h.next {
		dependents = append(dependents, h.dependent)
	}
	return dependents
}

// ring is a list of entries in the order in which rounds read them.
type ring struct {
	first, last *Entry
	n           int
}

func (r *ring) push(h *Entry) {
	h.in, h.prev, h.next = r, r.last, nil
	if r.last == nil {
		r.first = h
	} else {
		r.last.next = h
	}
	r.last = h
	r.n++
}

// leave takes the entry out of the ring that it is in.
func (h *Entry) leave() {
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

// ops is how many operations a round needs for all of r, each of which waits for one predecessor.
func (r *ring) ops() (n int) {
	for h := r.first; h != nil; h = h.next {
		n += max(h.ops, 1) + 1
	}
	return n
}
