package cluster

import (
	"context"
	"sync"
	"time"
)

// Grace is how long a call may go on after its context's end, to send what it still has to send:
// less than the 100 ms that a caller is promised.
const Grace = 80 * time.Millisecond

// Scope is the context of one call, with the values of the caller's. It ends with that one, or Grace
// later, or at End, which must be called. It is what context.WithCancel makes, and costs less where
// requests are sent with it: their bounds hang on it directly. Contexts may be derived from it, too.
type Scope struct {
	context.Context // the caller's
	grace           bool

	mu     sync.Mutex
	err    error         // once it is over
	done   chan struct{} // made for whoever asks for it
	unhook func() bool   // from the caller's
	bounds *bound        // of the attempts under way
}

// NewScope makes a Scope that ends with ctx.
func NewScope(ctx context.Context) *Scope { return newScope(ctx, false) }

// NewGrace makes a Scope that ends Grace after ctx does.
func NewGrace(ctx context.Context) *Scope { return newScope(ctx, true) }

func newScope(ctx context.Context, grace bool) *Scope {
	s := &Scope{Context: ctx, grace: grace}
	if ctx.Done() != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.unhook = context.AfterFunc(ctx, s.callerEnded)
	}
	return s
}

func (s *Scope) callerEnded() {
	if s.grace {
		time.AfterFunc(Grace, func() { s.over(s.Context.Err()) })
		return
	}
	s.over(s.Context.Err())
}

// End ends it. It may be called again.
func (s *Scope) End() { s.over(context.Canceled) }

func (s *Scope) over(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return
	}
	s.err = err
	for b := s.bounds; b != nil; b = b.next {
		b.cancel()
	}
	s.bounds = nil
	if s.done != nil {
		close(s.done)
	}
	if s.unhook != nil {
		s.unhook()
	}
}

// Done implements context.Context.
func (s *Scope) Done() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done == nil {
		s.done = make(chan struct{})
		if s.err != nil {
			close(s.done)
		}
	}
	return s.done
}

// Err implements context.Context.
func (s *Scope) Err() error {
	if !s.grace {
		if err := s.Context.Err(); err != nil {
			s.over(err) // nobody is trusted to have run
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Deadline implements context.Context.
func (s *Scope) Deadline() (time.Time, bool) {
	if s.grace {
		return time.Time{}, false
	}
	return s.Context.Deadline()
}

// attach has b cancelled when the Scope ends.
func (s *Scope) attach(b *bound) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		b.cancel()
		return
	}
	b.next, s.bounds = s.bounds, b
}

// detach undoes attach. false: it was too late.
func (s *Scope) detach(b *bound) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return false
	}
	at := &s.bounds
	for *at != b {
		at = &(*at).next
	}
	*at, b.next = b.next, nil
	return true
}
