package session

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/lease"
)

// Hazard U8: Close revokes, and returns nil because the lease is gone.
func TestCloseRevokesAndIsIdempotent(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(t *testing.T, r *rig) {
		s := r.session(lease.Options{})
		for range 3 {
			require.NoError(t, s.Close(context.Background()))
		}
		requireEnded(t, s, lease.ErrClosed)
		assert.Empty(t, r.Leases())
		assert.Empty(t, r.keysOf(s))
		assert.Equal(t, 1, r.Counts().Received["LeaseRevoke"])
	})
}

func TestCloseWithADoneContextStillRevokes(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		require.NoError(t, r.session(lease.Options{}).Close(ctx))
		assert.Empty(t, r.Leases())
	})
}

// Hazard U4: in a black hole Close returns at most 100 ms after its context's end, reports that the
// outcome is unknown and pending, and can be called again.
func TestCloseInABlackHoleReturnsInTimeAndIsDecidedLater(t *testing.T) {
	for _, wait := range []time.Duration{0, time.Second} {
		inBubble(t, etcdfake.Options{Members: 3}, func(t *testing.T, r *rig) {
			s := r.session(lease.Options{})
			r.BlackHole()
			ctx, cancel := context.WithTimeout(context.Background(), wait)
			defer cancel()
			for range 2 {
				began := time.Now()
				err := s.Close(ctx)
				assert.LessOrEqual(t, time.Since(began), wait+100*time.Millisecond)
				require.ErrorIs(t, err, cluster.ErrUnknown)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				assert.ErrorContains(t, err, "pending")
			}
			requireEnded(t, s, lease.ErrClosed)
			r.Heal()
			require.NoError(t, s.Close(context.Background()))
			assert.Empty(t, r.Leases())
		})
	}
}

func TestCloseWithoutADeadlineReturnsFromABlackHole(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
		s := r.session(lease.Options{})
		r.BlackHole()
		began := time.Now()
		require.ErrorIs(t, s.Close(context.Background()), cluster.ErrUnknown)
		assert.LessOrEqual(t, time.Since(began), closeTotal)
	})
}

func TestCloseFromManyGoroutinesGivesOneAnswer(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
		s := r.session(lease.Options{})
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() { assert.NoError(t, s.Close(context.Background())) })
		}
		wg.Wait()
		assert.Equal(t, 1, r.Counts().Received["LeaseRevoke"])
	})
}

// A revocation whose answer is lost is sent again. The answer that the lease is not found confirms it.
func TestALostAnswerToTheRevocationIsSettled(t *testing.T) {
	for name, rule := range map[string]etcdfake.Rule{
		"not applied":        {Lose: true, Err: rpctypes.ErrGRPCTimeout},
		"applied":            {Err: rpctypes.ErrGRPCTimeout},
		"applied and silent": {Hang: true},
	} {
		inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
			s := r.session(lease.Options{})
			rule.Method, rule.Times = "LeaseRevoke", 2
			r.Inject(rule)
			require.NoError(t, s.Close(context.Background()), name)
			assert.Empty(t, r.Leases())
		})
	}
}

// If revoking is refused for good, it is given up once the lease must have expired.
func TestARevocationThatIsRefusedIsGivenUpWhenTheLeaseHasEndedByItself(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
		s := r.session(lease.Options{TTL: 5 * time.Second})
		r.Inject(etcdfake.Rule{Method: "LeaseRevoke", Lose: true, Err: rpctypes.ErrGRPCPermissionDenied})
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		require.ErrorContains(t, s.Close(ctx), "pending")
		sleep(15 * time.Second)
		assert.True(t, isClosed(s.revocation.done))
		sent := r.Counts().Received["LeaseRevoke"]
		err := s.Close(context.Background())
		require.ErrorIs(t, err, cluster.ErrUnknown)
		assert.ErrorContains(t, err, "permission denied")
		sleep(time.Minute)
		assert.Equal(t, sent, r.Counts().Received["LeaseRevoke"])
	})
}

// The lease of a session that expires is revoked in the background, so that the server and the client
// agree (hazard H5).
func TestAnExpiredSessionsLeaseIsRevokedInTheBackground(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
		s := r.session(lease.Options{TTL: 300 * time.Second})
		r.silence()
		sleep(251 * time.Second)
		oneCause(t, s.Err(), lease.ErrExpired)
		assert.Empty(t, r.Leases())
		require.NoError(t, s.Close(context.Background()))
	})
}

// Close returns nil only if the lease is gone, or is another process's concern.
func TestCloseAfterTheClusterChangedDoesNotClaimThatTheLeaseIsGone(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
		s := r.session(lease.Options{TTL: 4 * time.Second})
		r.Member(0).SetClusterID(77)
		sleep(2 * time.Second)
		requireEnded(t, s, cluster.ErrChanged)
		err := s.Close(context.Background())
		require.ErrorIs(t, err, cluster.ErrUnknown)
		assert.ErrorContains(t, err, "left to expire")
		assert.Zero(t, r.Counts().Received["LeaseRevoke"], "nothing is done with another cluster")
	})
}

func TestCloseAfterDetachDoesNothing(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
		s := r.session(lease.Options{})
		require.NotEqual(t, lease.Handle{}, s.Detach())
		require.NoError(t, s.Close(context.Background()))
		assert.Len(t, r.Leases(), 1)
	})
}

// Rule N6: a session that was taken over leaves the lease alone.
func TestASessionWhoseKeyWasRewrittenLeavesTheLease(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
		s := r.session(lease.Options{TTL: 60 * time.Second})
		r.Put(s.own.key, "another's", s.ID())
		synctest.Wait()
		requireEnded(t, s, lease.ErrRevoked)
		sleep(20 * time.Second)
		assert.Len(t, r.Leases(), 1)
		err := s.Close(context.Background())
		require.ErrorIs(t, err, cluster.ErrUnknown)
		assert.ErrorContains(t, err, "left")
		assert.Len(t, r.Leases(), 1)
	})
}
