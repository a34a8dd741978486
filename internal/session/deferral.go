package session

import (
	"context"
	"sync"
)

// A Deferral holds back what would let somebody else have what a session held: the
// revocation of its lease, and the removal of a key that others wrote to, while
// work goes on that may rest on it. The zero Deferral is ready. It is safe for use
// by several goroutines.
type Deferral struct {
	mu   sync.Mutex
	work int
	idle chan struct{} // closed when no work is left; nil: there is none
}

// Begin holds back until done is called, which may be called more than once.
func (d *Deferral) Begin() (done func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.work++; d.work == 1 {
		d.idle = make(chan struct{})
	}
	return sync.OnceFunc(d.done)
}

func (d *Deferral) done() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.work--; d.work == 0 {
		close(d.idle)
		d.idle = nil
	}
}

// pending is closed when no work is left; nil: there is none.
func (d *Deferral) pending() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.idle
}

// DeferRevocation keeps the lease of a session that is over, for whatever reason,
// from being revoked until done is called: then nobody else can acquire what hangs
// on it before the lease ends by itself at the server. It is for work that may go on
// beyond the session's end. The client's Close waits for done as long as for any
// removal, and leaves the lease to expire then. done may be called more than once.
func (s *Session) DeferRevocation() (done func()) { return s.deferral.Begin() }

// AwaitDeferred waits until nothing defers the session's revocation any more,
// neither its own Deferral nor its client's; false: ctx has ended before.
func (s *Session) AwaitDeferred(ctx context.Context) bool {
	for {
		pending := s.deferral.pending()
		if pending == nil && s.host.Deferral != nil {
			pending = s.host.Deferral.pending()
		}
		if pending == nil {
			return true
		}
		select {
		case <-pending:
		case <-ctx.Done():
			return false
		}
	}
}

// Abandon ends the session, and all that hangs on it, with cause: it is marked
// first, then no renewal is sent any more. Its lease is revoked in the background,
// as at any end; while that is deferred it is left to end by itself. After the
// session's end Abandon does nothing.
func (s *Session) Abandon(cause error) { s.end(cause, remove) }
