package lease

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/internal/cluster"
)

// Grace is how long a call may go on after its context's end, to send what it
// still has to send: less than the 100 ms that a caller is promised.
const Grace = 80 * time.Millisecond

// Close ends the session, and all that hangs on it, with ErrClosed, stops
// renewing, and revokes the lease. nil means that the lease is gone. It waits
// until ctx ends, or for 80 ms where ctx is done already; then its error
// matches kv.ErrUnknown, and the revocation goes on behind the caller: calling
// Close again waits again. Once decided it gives the same answer. After Detach
// it does nothing.
func (s *Session) Close(ctx context.Context) error {
	s.end(ErrClosed, remove)
	<-s.looped
	select {
	case <-s.revoked:
		return s.left
	default:
	}
	ctx, cancel := WithGrace(ctx)
	defer cancel()
	select {
	case <-s.revoked:
		return s.left
	case <-ctx.Done():
		return fmt.Errorf("lease: close: %w: revocation is pending", errors.Join(cluster.ErrUnknown, context.Cause(ctx)))
	}
}

// Begone begins what Close does, and does not wait for it.
func (s *Session) Begone() { s.end(ErrClosed, remove) }

// Stopped is closed when the session is over and none of its goroutines runs
// any more, a revocation apart.
func (s *Session) Stopped() <-chan struct{} { return s.looped }

// WithGrace returns a context that ends Grace after ctx does.
func WithGrace(ctx context.Context) (context.Context, context.CancelFunc) {
	if ctx.Done() == nil {
		return ctx, func() {}
	}
	out, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		time.AfterFunc(Grace, func() { cancel(context.Cause(ctx)) })
	})
	return out, func() { stop(); cancel(nil) }
}

// revoke begins the revocation of the lease, once.
func (s *Session) revoke() {
	s.revoking.Do(func() {
		ok := s.host.Behind.Go(fmt.Sprintf("lease %x", s.id), func(ctx context.Context) {
			defer close(s.revoked)
			if !s.AwaitSparing(ctx) {
				s.left = fmt.Errorf("lease: close: %w: lease %x is spared, and left to expire", cluster.ErrUnknown, s.id)
				return
			}
			s.left = revokeUntilGone(ctx, s.host.Cluster, s.id)
		})
		if !ok {
			s.left = fmt.Errorf("lease: close: %w: the client is closed, lease %x is left to expire", cluster.ErrUnknown, s.id)
			close(s.revoked)
		}
	})
}

// revokeUntilGone revokes lease id, again and again, until the server confirms
// that it is gone or ctx ends.
func revokeUntilGone(ctx context.Context, c *cluster.Cluster, id int64) error {
	for wait := newBackoff(minWait, maxWait); ; {
		err := revokeOnce(ctx, c, id)
		if err == nil || cluster.IsLeaseNotFound(err) {
			return nil
		}
		if c.Err() != nil || !wait.sleep(ctx) {
			return fmt.Errorf("lease: close: %w: lease %x is left to expire: %w", cluster.ErrUnknown, id, err)
		}
	}
}

func revokeOnce(ctx context.Context, c *cluster.Cluster, id int64) error {
	return c.Do(ctx, cluster.Request{Op: "lease revoke", Repeat: cluster.Always}, func(ctx context.Context, m *cluster.Member) (*pb.ResponseHeader, error) {
		resp, err := m.Lease().LeaseRevoke(ctx, &pb.LeaseRevokeRequest{ID: id})
		return resp.GetHeader(), err
	})
}

// lateGrant is how long a grant whose answer was lost may still be applied: the
// server gives a request up after 7 s.
const lateGrant = 8 * time.Second

// revokeBehind revokes a lease that may have been granted, or may yet be: not
// found is no proof that it will not come (F8), so it asks until lateGrant has
// passed. One that comes later still ends by itself, for nobody renews it.
func revokeBehind(host Host, id int64) {
	host.Behind.Go(fmt.Sprintf("lease %x", id), func(ctx context.Context) {
		sent := clock.Now()
		for wait := newBackoff(minWait, time.Second); ; {
			err := revokeOnce(ctx, host.Cluster, id)
			if err == nil || cluster.IsLeaseNotFound(err) && clock.Now().Sub(sent) > lateGrant {
				return
			}
			if host.Cluster.Err() != nil || !wait.sleep(ctx) {
				return
			}
		}
	})
}

// A Removal is what a failed attempt, or a release, may have left in etcd.
type Removal interface {
	// Remove tries once and reports whether nothing is left. It returns when
	// ctx ends.
	Remove(ctx context.Context) bool
}

// RemoveBehind has r removed behind the caller, again and again until it is
// done or the session is over, for then the lease takes it along.
func (s *Session) RemoveBehind(r Removal) {
	s.mu.Lock()
	if s.over.Load() != nil {
		s.mu.Unlock()
		return
	}
	s.pending = append(s.pending, r)
	begin := !s.removing
	s.removing = true
	s.mu.Unlock()
	if begin && !s.host.Behind.Go(fmt.Sprintf("keys of lease %x", s.id), s.removeAll) {
		s.mu.Lock()
		s.removing = false
		s.mu.Unlock()
	}
}

// removeAll works on the pending removals until there is none.
func (s *Session) removeAll(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	wait := newBackoff(minWait, maxWait)
	for {
		s.mu.Lock()
		if len(s.pending) == 0 || ctx.Err() != nil {
			s.removing = false
			s.mu.Unlock()
			return
		}
		r := s.pending[0]
		s.mu.Unlock()

		if r.Remove(ctx) {
			s.mu.Lock()
			s.pending = s.pending[1:]
			s.mu.Unlock()
			wait.reset()
			continue
		}
		wait.sleep(ctx)
	}
}

// The bounds of the wait between two tries of what is repeated until done.
const (
	minWait = 100 * time.Millisecond
	maxWait = 2 * time.Second
)

// backoff is a jittered, doubling wait.
type backoff struct{ next, first, most time.Duration }

func newBackoff(first, most time.Duration) *backoff {
	return &backoff{next: first, first: first, most: most}
}

func (b *backoff) reset() { b.next = b.first }

// sleep waits, half to all of the next wait, and reports whether ctx goes on.
func (b *backoff) sleep(ctx context.Context) bool {
	d := b.next/2 + rand.N(b.next/2+1)
	b.next = min(2*b.next, b.most)
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
