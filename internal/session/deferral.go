package session

import (
	"context"
	"sync"

	"github.com/pawl-locks/pawl/internal/backoff"
	"github.com/pawl-locks/pawl/internal/clock"
)

// A Deferral holds something back until work is done. Usually it keeps other processes from acquiring
// what a session held while work that may rely on the lock is still running. It then holds back the
// revocation of the session's lease, and the removal of keys whose hold has ended: by MaxHold, because
// one of several keys was lost, or because somebody overwrote the key. The zero Deferral is ready. It
// is safe for concurrent use.
type Deferral struct {
	mu   sync.Mutex
	work int
	idle chan struct{} // closed when no work is left; nil if there is no work
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

// Await waits until no work is left. It returns false if ctx ends first.
func (d *Deferral) Await(ctx context.Context) bool { return awaitIdle(ctx, d) }

// awaitIdle waits until none of the Deferrals, which may be nil, has work. It returns false if ctx ends
// first.
func awaitIdle(ctx context.Context, all ...*Deferral) bool {
	for i := 0; i < len(all); {
		work := all[i].Pending()
		if work == nil {
			i++
			continue
		}
		select {
		case <-work:
			i = 0
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// Deferred returns a channel that is closed when some of the work has ended that defers the revocation,
// of the session or of its client. It returns nil if there is none now.
func (s *Session) Deferred() <-chan struct{} {
	if work := s.revocation.deferral.Pending(); work != nil {
		return work
	}
	return s.host.Deferral.Pending()
}

// Pending returns a channel that is closed when no work is left, or nil if none is left now. d may be nil.
func (d *Deferral) Pending() <-chan struct{} {
	if d == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.idle
}

// DeferRevocation keeps the session's lease from being revoked until done is called, whatever ends the
// session. Nobody else can then acquire what the session held before the lease expires at the server.
// It is for work that may outlast the session. The client's Close waits for done as long as for any
// removal, and then leaves the lease to expire. done may be called more than once.
func (s *Session) DeferRevocation() (done func()) { return s.revocation.deferral.Begin() }

// AwaitDeferred waits until neither the session's Deferral nor its client's defers the
// revocation. It returns false if ctx ends first.
func (s *Session) AwaitDeferred(ctx context.Context) bool {
	return awaitIdle(ctx, &s.revocation.deferral, s.host.Deferral)
}

// Abandon ends the session, and all its dependents, with cause. It is marked first, and no renewal is
// sent afterwards. Its lease is revoked in the background, as at any end. If the revocation is
// deferred, the lease may expire first. Abandon does nothing if the session has already ended.
func (s *Session) Abandon(cause error) { s.end(cause, remove) }

func later(i, j clock.Instant) clock.Instant {
	if i.Before(j) {
		return j
	}
	return i
}

// AwaitInstant waits until the instant until. It returns false if ctx ends first. It reads the
// clock again after each wait, because a timer stops during a suspend.
func AwaitInstant(ctx context.Context, until clock.Instant) bool {
	for left := until.Sub(clock.Now()); left > 0; left = until.Sub(clock.Now()) {
		if !backoff.Sleep(ctx, left) {
			return false
		}
	}
	return true
}
