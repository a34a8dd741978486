package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/internal/backoff"
	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/etcdapi"
	"github.com/pawl-locks/pawl/lease"
)

// closeTotal bounds Close if its context does not.
const closeTotal = 12 * time.Second

// Close ends the session, and all its dependents, with ErrClosed, stops renewing, and revokes the
// lease. It returns nil once the lease is gone. It waits until ctx ends, or for 80 ms if ctx is already
// done, and for 12 s at most. If that is not enough, its error matches kv.ErrUnknown, and the
// revocation continues in the background. Calling Close again waits again. Once the result is decided
// every call returns it. After Detach it does nothing.
func (s *Session) Close(ctx context.Context) error {
	s.end(lease.ErrClosed, remove)
	late := time.NewTimer(closeTotal)
	defer late.Stop()
	grace, cancel := cluster.WithGrace(ctx, cluster.Grace)
	defer cancel()
	for _, step := range []<-chan struct{}{s.stopped, s.revocation.done} {
		if isClosed(step) {
			continue
		}
		select {
		case <-step:
		case <-grace.Done():
			return fmt.Errorf("lease: close: %w: revocation is pending: %w", cluster.ErrUnknown, cluster.EndOf(ctx))
		case <-late.C:
			return fmt.Errorf("lease: close: %w: revocation is pending after %v", cluster.ErrUnknown, closeTotal)
		}
	}
	return s.revocation.left
}

// CloseInBackground begins what Close does, without waiting.
func (s *Session) CloseInBackground() { s.end(lease.ErrClosed, remove) }

// Stopped is closed when the session has ended and all of its goroutines have returned, except
// for a revocation.
func (s *Session) Stopped() <-chan struct{} { return s.stopped }

// A revocation is the revocation of an ended session's lease: what holds it back, and its result.
// The session guards taking, ended and handedOver.
type revocation struct {
	deferral   Deferral
	taking     bool          // the session is being taken over; the lease is left, however it ends
	ended      clock.Instant // when the session ended
	handedOver bool          // it ended by Detach

	done chan struct{} // closed when the result is decided
	left error         // why the lease is left to expire; read after done
}

func (r *revocation) decide(left error) {
	r.left = left
	close(r.done)
}

// revoke has the lease revoked in the background, once nothing defers that, and nothing that was held
// has to stay any more: what was promised has passed, and the lock-delays. deferred says that something did at
// the session's end.
func (s *Session) revoke(deferred bool) {
	ok := s.host.Cleanup.Go(fmt.Sprintf("lease %x", s.id), func(ctx context.Context) {
		if !s.AwaitDeferred(ctx) {
			s.revocation.decide(leftToExpire(s.id, errors.New("its revocation is deferred")))
			return
		}
		var work clock.Instant
		if deferred {
			work = clock.Now()
		}
		s.mu.Lock()
		until := s.book.keptUntil(s.validity.delay, s.revocation.ended, work) // no promise can be added, because the session has ended
		s.mu.Unlock()
		if !AwaitInstant(ctx, until) {
			s.revocation.decide(leftToExpire(s.id, errors.New("what it holds is promised")))
			return
		}
		s.revocation.decide(revokeUntilGone(ctx, s.host.Cluster, s.id, s.lifetime(), 0))
	})
	if !ok {
		s.revocation.decide(leftToExpire(s.id, errors.New("the client is closed")))
	}
}

// revokeUntilGone revokes lease id until the server confirms that it is gone, or ctx ends. It gives up
// when the lease, which is no longer renewed, must have expired, because a revocation may be refused
// for good, for lack of permission on one of the lease's keys. Until settles has passed, "not found"
// does not prove that the lease is gone.
func revokeUntilGone(ctx context.Context, c *cluster.Cluster, id int64, ttl, settles time.Duration) error {
	began := clock.Now()
	for wait := backoff.Background(); ; {
		err := revokeOnce(ctx, c, id)
		past := clock.Now().Sub(began)
		if err == nil || cluster.IsLeaseNotFound(err) && past >= settles {
			return nil
		}
		if c.Err() != nil || past > ttl+lateGrant || !wait.Sleep(ctx) {
			return leftToExpire(id, err)
		}
	}
}

// leftToExpire is Close's error for a lease whose revocation was not confirmed because of why.
func leftToExpire(id int64, why error) error {
	return fmt.Errorf("lease: close: %w: lease %x is left to expire: %w", cluster.ErrUnknown, id, why)
}

func revokeOnce(ctx context.Context, c *cluster.Cluster, id int64) error {
	return c.Do(ctx, cluster.Request{Op: "lease revoke", Repeat: cluster.Always}, func(ctx context.Context, m *cluster.Member) (*pb.ResponseHeader, error) {
		resp, err := etcdapi.LeaseRevoke(ctx, m, &pb.LeaseRevokeRequest{ID: id})
		return resp.GetHeader(), err
	})
}

// lateGrant is how long a grant whose answer was lost may still be applied: the server gives up
// on a request after 7 s.
const lateGrant = 8 * time.Second

// revokeInBackground revokes a lease that may have been granted, or may still be granted. "Not found"
// does not prove that it will not be granted (F8), so the revocation is repeated until lateGrant has
// passed. A lease that is granted even later expires after ttl, because nobody renews it.
func revokeInBackground(host Host, id int64, ttl time.Duration) {
	host.Cleanup.Go(fmt.Sprintf("lease %x", id), func(ctx context.Context) {
		_ = revokeUntilGone(ctx, host.Cluster, id, ttl, lateGrant)
	})
}
