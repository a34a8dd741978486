package session

import (
	"context"
	"sync"
)

// A Deferral holds back what would let another process acquire what a session held, while work
// that may rest on the lock is still running: the revocation of the session's lease, and the
// removal of a key that somebody overwrote. The zero Deferral is ready. It is safe for
// concurrent use.
type Deferral struct {
	mu   sync.Mutex
	work int
	idle chan struct{} // closed when no work is left; nil if there is none
}

// Begin defers until done is called. done may be called more than once.
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

// Await waits until no work is left; false: ctx ended first.
func (d *Deferral) Await(ctx context.Context) bool { return awaitWork(ctx, d.pending) }

// awaitWork waits until pending returns nil; false: ctx ended first.
func awaitWork(ctx context.Context, pending func() <-chan struct{}) bool {
	for work := pending(); work != nil; work = pending() {
		select {
		case <-work:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// pending returns a channel that is closed when no work is left, or nil if none is left now.
func (d *Deferral) pending() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.idle
}

// DeferRevocation keeps the lease of a session that has ended, for whatever reason, from being
// revoked until done is called: until the lease expires at the server, nobody else can acquire
// what the session held. It is for work that may outlast the session. The client's Close waits
// for done as long as for any removal, and then leaves the lease to expire. done may be called
// more than once.
func (s *Session) DeferRevocation() (done func()) { return s.deferral.Begin() }

// AwaitDeferred waits until neither the session's Deferral nor its client's defers the
// revocation. It returns false if ctx ends first.
func (s *Session) AwaitDeferred(ctx context.Context) bool {
	return awaitWork(ctx, func() <-chan struct{} {
		work := s.deferral.pending()
		if work == nil && s.host.Deferral != nil {
			work = s.host.Deferral.pending()
		}
		return work
	})
}

// Abandon ends the session, and all its dependents, with cause. It is marked first, and no
// renewal is sent afterwards. Its lease is revoked in the background, as at any end; while that
// is deferred the lease may expire instead. After the session's end Abandon does nothing.
func (s *Session) Abandon(cause error) { s.end(cause, remove) }
