package session

import (
	"context"
	"slices"
)

// Forsake ends the session, and all that hangs on it, with cause: it is marked first, then no renewal is sent any more. Its lease is
// revoked behind the caller, as at any end; while it is spared it is left to end
// by itself. After the session's end Forsake does nothing.
func (s *Session) Forsake(cause error) { s.end(cause, remove) }

// Spare keeps the lease of a session that is over, for whatever reason, from
// being revoked until done is called: then nobody else can be granted what hangs
// on it before the lease ends by itself at the server. It is for work that may
// go on beyond the session's end. The client's Close waits for done as long as
// for any removal. done may be called more than once.
func (s *Session) Spare() (done func()) {
	work := make(chan struct{})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sparing = append(s.sparing, work)
	return func() { s.spared(work) }
}

// spared notes that work is over.
func (s *Session) spared(work chan struct{}) {
	s.mu.Lock()
	i := slices.Index(s.sparing, work)
	if i >= 0 {
		s.sparing = slices.Delete(s.sparing, i, i+1)
	}
	s.mu.Unlock()
	if i >= 0 {
		close(work)
	}
}

// AwaitSparing waits until no work is spared any more; false: ctx has ended
// before.
func (s *Session) AwaitSparing(ctx context.Context) bool {
	for {
		s.mu.Lock()
		var work chan struct{}
		if len(s.sparing) > 0 {
			work = s.sparing[0]
		}
		s.mu.Unlock()
		if work == nil {
			return true
		}
		select {
		case <-work:
		case <-ctx.Done():
			return false
		}
	}
}
