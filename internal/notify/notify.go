// Package notify delivers events to a client's Observer, and records to its log.
//
// An Observer is a user's code. It may be slow, call back into the library, or
// panic. A [Source] therefore queues its events in order, and delivers them while no
// mutex is held. A goroutine that adds an event while another goroutine delivers
// does not wait; the delivering goroutine delivers the new event too.
//
// A log's handler is a user's code too, and may stand still. A [Log] therefore calls it in a goroutine
// for which nobody waits, and drops what exceeds its queue.
package notify

import (
	"log/slog"
	"sync"

	"github.com/pawl-locks/pawl/observe"
)

// A Notifier delivers events to a client's Observer. A nil Notifier delivers nothing.
type Notifier struct {
	to    observe.Observer
	log   *slog.Logger
	spawn func(func()) bool

	mu      sync.Mutex
	waiting []*Source // whose events the worker delivers
	working bool
}

// New returns a Notifier for an Observer, or nil for a nil Observer. spawn runs a function in a
// goroutine that the caller owns. When no more goroutines may start, spawn returns false and runs
// nothing.
func New(to observe.Observer, log *slog.Logger, spawn func(func()) bool) *Notifier {
	if to == nil {
		return nil
	}
	return &Notifier{to: to, log: log, spawn: spawn}
}

// NewSource returns a new Source, or nil for a nil Notifier.
func (n *Notifier) NewSource() *Source {
	if n == nil {
		return nil
	}
	return &Source{notifier: n}
}

// enqueue hands s to the worker, a goroutine that runs while a source has events to deliver.
func (n *Notifier) enqueue(s *Source) {
	n.mu.Lock()
	n.waiting = append(n.waiting, s)
	begin := !n.working
	n.working = true
	n.mu.Unlock()
	if begin {
		n.begin()
	}
}

// begin starts the worker. If no goroutine may start, the caller does its work.
func (n *Notifier) begin() {
	if !n.spawn(n.work) {
		n.work()
	}
}

func (n *Notifier) work() {
	done := false
	defer func() {
		if !done { // an observer ended the goroutine
			n.begin()
		}
	}()
	for s := n.next(); s != nil; s = n.next() {
		s.deliver()
	}
	done = true
}

// next removes and returns the next source. It returns nil if there is none, and then the worker ends.
func (n *Notifier) next() *Source {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.waiting) == 0 {
		n.waiting, n.working = nil, false
		return nil
	}
	s := n.waiting[0]
	n.waiting = n.waiting[1:]
	return s
}
