// Package notify carries events to a client's Observer.
//
// An Observer is a user's code: it may be slow, call back into the library, or
// panic. So an event is put into a Feed first, which keeps the order, and is
// delivered while nothing is locked. Whoever put one in while another is being
// delivered goes on: the one who delivers takes it along.
package notify

import (
	"log/slog"
	"sync"

	"github.com/pawl-locks/pawl/observe"
)

// A Teller knows a client's Observer. nil: there is none.
type Teller struct {
	to    observe.Observer
	log   *slog.Logger
	spawn func(func()) bool

	mu      sync.Mutex
	waiting []*Feed // to be delivered by the worker
	working bool
}

// New makes a Teller; nil for a nil Observer. spawn runs a function in a goroutine
// that somebody owns; it returns false, and runs nothing, when none may begin any
// more.
func New(to observe.Observer, log *slog.Logger, spawn func(func()) bool) *Teller {
	if to == nil {
		return nil
	}
	return &Teller{to: to, log: log, spawn: spawn}
}

// Feed is a new Feed; nil for a nil Teller.
func (t *Teller) Feed() *Feed {
	if t == nil {
		return nil
	}
	return &Feed{t: t}
}

// hand has f delivered by the worker, a goroutine that is there while there is
// something to deliver.
func (t *Teller) hand(f *Feed) {
	t.mu.Lock()
	t.waiting = append(t.waiting, f)
	begin := !t.working
	t.working = true
	t.mu.Unlock()
	if begin {
		t.begin()
	}
}

// begin begins the worker; where none may be, it is the caller.
func (t *Teller) begin() {
	if !t.spawn(t.work) {
		t.work()
	}
}

func (t *Teller) work() {
	done := false
	defer func() {
		if !done { // an observer has ended the goroutine
			t.begin()
		}
	}()
	for f := t.next(); f != nil; f = t.next() {
		f.deliver()
	}
	done = true
}

// next takes a feed out; nil: there is none, and nobody works any more.
func (t *Teller) next() *Feed {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.waiting) == 0 {
		t.waiting, t.working = nil, false
		return nil
	}
	f := t.waiting[0]
	t.waiting = t.waiting[1:]
	return f
}
