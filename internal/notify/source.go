package notify

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/pawl-locks/pawl/observe"
)

// A Source is the queue of events of one session, of one lock, or of one campaign and its term. It
// delivers them in order and one at a time. A nil Source drops them.
type Source struct {
	notifier *Notifier
	mu       sync.Mutex
	queue    []notification
	busy     bool // a goroutine delivers, or the worker has been asked to
	full     bool // an event was dropped, which was logged
	ended    bool // Last was called
}

type notification struct {
	ctx  context.Context
	ev   observe.Event
	last bool
	over func() bool // if it returns true, ev is not added; nil if it always is
}

// maxPending is how many events may wait. When it is reached, each further event replaces the last one,
// so that the final event of a source is always delivered.
const maxPending = 256

// Now delivers ev before it returns or, if another goroutine delivers already, leaves ev to that
// goroutine. The caller must hold no mutex.
func (s *Source) Now(ctx context.Context, ev observe.Event) {
	if s.put(notification{ctx: ctx, ev: ev}) {
		s.deliver()
	}
}

// Later leaves ev to the worker, and does not wait for its delivery.
func (s *Source) Later(ctx context.Context, ev observe.Event) {
	if s.put(notification{ctx: ctx, ev: ev}) {
		s.notifier.enqueue(s)
	}
}

// LaterUnless is Later unless, when the event would come next, over returns true. over may lock a mutex that is
// not locked while an event is added.
func (s *Source) LaterUnless(ctx context.Context, ev observe.Event, over func() bool) {
	if s.put(notification{ctx: ctx, ev: ev, over: over}) {
		s.notifier.enqueue(s)
	}
}

// Last is Later for the final event. Events that other goroutines add afterwards are not delivered,
// because they may be about what happened before the end, and would be reported after it.
func (s *Source) Last(ctx context.Context, ev observe.Event) {
	if s.put(notification{ctx: ctx, ev: ev, last: true}) {
		s.notifier.enqueue(s)
	}
}

// put adds an event, and reports whether the caller has to deliver it or to leave it
// to the worker. It logs without the mutex, because a log handler is a user's code too.
func (s *Source) put(e notification) (begin bool) {
	if s == nil {
		return false
	}
	s.mu.Lock()
	if s.ended || e.over != nil && e.over() {
		s.mu.Unlock()
		return false
	}
	s.ended = e.last
	overflows := false // an event is dropped for the first time
	if len(s.queue) < maxPending {
		s.queue = append(s.queue, e)
	} else {
		s.queue[maxPending-1] = e
		overflows, s.full = !s.full, true
	}
	begin, s.busy = !s.busy, true
	s.mu.Unlock()
	if overflows {
		s.notifier.log.Error("observer does not keep up: events are dropped", "waiting", maxPending)
	}
	return begin
}

// deliver calls the Observer until the queue is empty, and then marks that no goroutine delivers.
func (s *Source) deliver() {
	for {
		s.mu.Lock()
		if len(s.queue) == 0 {
			s.queue, s.busy = nil, false
			s.mu.Unlock()
			return
		}
		e := s.queue[0]
		s.queue = s.queue[1:]
		s.mu.Unlock()
		s.call(e)
	}
}

// call delivers one event to the Observer, and recovers from its panic. If the Observer ends the
// goroutine, as testing.T.FailNow does, the worker delivers the rest.
func (s *Source) call(e notification) {
	returned := false
	defer func() {
		p := recover()
		switch {
		case p != nil:
			s.notifier.log.Error("observer panicked", "event", fmt.Sprintf("%T", e.ev), "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
		case !returned:
			s.notifier.enqueue(s)
		}
	}()
	s.notifier.to.Observe(e.ctx, e.ev)
	returned = true
}
