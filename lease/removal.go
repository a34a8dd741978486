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

// closeTotal bounds Close where its context does not.
const closeTotal = 12 * time.Second

// Close ends the session, and all that hangs on it, with ErrClosed, stops
// renewing, and revokes the lease. nil means that the lease is gone. It waits
// until ctx ends, for 80 ms where ctx is done already, and for 12 s at the most;
// then its error matches kv.ErrUnknown, and the revocation goes on behind the
// caller: calling Close again waits again. Once decided it gives the same answer.
// After Detach it does nothing.
func (s *Session) Close(ctx context.Context) error {
	s.end(ErrClosed, remove)
	<-s.looped
	select {
	case <-s.revoked:
		return s.left
	default:
	}
	late := time.NewTimer(closeTotal)
	defer late.Stop()
	grace := cluster.NewGrace(ctx)
	defer grace.End()
	select {
	case <-s.revoked:
		return s.left
	case <-grace.Done():
		return fmt.Errorf("lease: close: %w: revocation is pending: %w", cluster.ErrUnknown, cluster.EndOf(ctx))
	case <-late.C:
		return fmt.Errorf("lease: close: %w: revocation is pending after %v", cluster.ErrUnknown, closeTotal)
	}
}

// Begone begins what Close does, and does not wait for it.
func (s *Session) Begone() { s.end(ErrClosed, remove) }

// Stopped is closed when the session is over and none of its goroutines runs
// any more, a revocation apart.
func (s *Session) Stopped() <-chan struct{} { return s.looped }

// revoke begins the revocation of the lease, once.
func (s *Session) revoke() {
	s.revoking.Do(func() {
		ok := s.host.Behind.Go(fmt.Sprintf("lease %x", s.id), func(ctx context.Context) {
			defer close(s.revoked)
			if !s.AwaitSparing(ctx) {
				s.left = leftToExpire(s.id, errors.New("it is spared"))
				return
			}
			s.left = revokeUntilGone(ctx, s.host.Cluster, s.id, s.TTL())
		})
		if !ok {
			s.left = leftToExpire(s.id, errors.New("the client is closed"))
			close(s.revoked)
		}
	})
}

// revokeUntilGone revokes lease id, again and again, until the server confirms
// that it is gone, or ctx ends. It gives up when the lease, which nobody renews,
// has had the time to end by itself: a revocation may be refused for good, for
// want of permission on one of the lease's keys.
func revokeUntilGone(ctx context.Context, c *cluster.Cluster, id int64, ttl time.Duration) error {
	began := clock.Now()
	for wait := newBackoff(minWait, maxWait); ; {
		err := revokeOnce(ctx, c, id)
		if err == nil || cluster.IsLeaseNotFound(err) {
			return nil
		}
		if c.Err() != nil || clock.Now().Sub(began) > ttl+lateGrant || !wait.sleep(ctx) {
			return leftToExpire(id, err)
		}
	}
}

// leftToExpire is what Close says of a lease whose revocation was not confirmed,
// because of why.
func leftToExpire(id int64, why error) error {
	return fmt.Errorf("lease: close: %w: lease %x is left to expire: %w", cluster.ErrUnknown, id, why)
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
// passed. One that comes later still ends by itself, after ttl, for nobody renews
// it.
func revokeBehind(host Host, id int64, ttl time.Duration) {
	host.Behind.Go(fmt.Sprintf("lease %x", id), func(ctx context.Context) {
		sent := clock.Now()
		for wait := newBackoff(minWait, time.Second); ; {
			err := revokeOnce(ctx, host.Cluster, id)
			if err == nil || cluster.IsLeaseNotFound(err) && clock.Now().Sub(sent) > lateGrant {
				return
			}
			if host.Cluster.Err() != nil || clock.Now().Sub(sent) > ttl+lateGrant || !wait.sleep(ctx) {
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
	begin := s.removers < maxRemovers
	if begin {
		s.removers++
	}
	s.mu.Unlock()
	if begin && !s.host.Behind.Go(fmt.Sprintf("keys of lease %x", s.id), s.removeAll) {
		s.mu.Lock()
		s.removers--
		s.mu.Unlock()
	}
}

// maxRemovers is how many removals of a session are under way at once: a lock that many
// of its waiters gave up is free after a few round trips, and not after one for each.
const maxRemovers = 64

// How long one try of a removal may take: short, so that a member which says
// nothing, or an answer that was lost, holds up little, and now and then as long
// as a slow cluster needs.
const (
	removalTry     = 400 * time.Millisecond
	removalLongTry = 4 * time.Second
	longTryEvery   = 4
)

// removeAll works on the pending removals until there is none. One that fails
// goes behind the others, so that it does not hold them up; there is a pause when
// as many in a row have failed, here and in the other goroutines, as there are.
func (s *Session) removeAll(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	wait := newBackoff(minWait, maxRemovalWait)
	for tries, failed := 1, 0; ; tries++ {
		s.mu.Lock()
		if len(s.pending) == 0 || ctx.Err() != nil {
			s.removers--
			s.mu.Unlock()
			return
		}
		r := s.pending[0]
		s.pending = s.pending[1:]
		s.mu.Unlock()

		if tryRemoval(ctx, r, tries%longTryEvery == 0) {
			tries, failed = 0, 0
			wait.reset()
			continue
		}
		s.mu.Lock()
		s.pending = append(s.pending, r)
		if s.removers > len(s.pending) { // the others are enough
			s.removers--
			s.mu.Unlock()
			return
		}
		failed++
		pause := failed*s.removers >= len(s.pending)
		s.mu.Unlock()
		if pause {
			failed = 0
			wait.sleep(ctx)
		}
	}
}

func tryRemoval(ctx context.Context, r Removal, patient bool) bool {
	bound := removalTry
	if patient {
		bound = removalLongTry
	}
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	return r.Remove(ctx)
}

// The bounds of the wait between two tries of what is repeated until done.
const (
	minWait        = 100 * time.Millisecond
	maxWait        = 2 * time.Second
	maxRemovalWait = 500 * time.Millisecond
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
