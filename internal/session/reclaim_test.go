package session

import (
	"context"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/lease"
)

// reclaim reclaims what s left, as another process, within five seconds.
func (r *rig) reclaim(left Remains) error {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return Reclaim(ctx, r.successor(), left)
}

func TestTheLeaseOfADeadProcessIsRevokedWithAllItsKeys(t *testing.T) {
	for name, rule := range map[string]*etcdfake.Rule{
		"all is answered":                             nil,
		"the deletion's answer is lost":               {Method: "Txn", Times: 1, Err: rpctypes.ErrGRPCTimeout},
		"the deletion is lost":                        {Method: "Txn", Times: 1, Lose: true, Err: rpctypes.ErrGRPCTimeout},
		"the revocation's answer is lost":             {Method: "LeaseRevoke", Times: 2, Err: rpctypes.ErrGRPCTimeout},
		"the revocation is lost":                      {Method: "LeaseRevoke", Times: 2, Lose: true, Err: rpctypes.ErrGRPCTimeout},
		"somebody has deleted the session's key":      {},
		"somebody has revoked the lease, key and all": {},
	} {
		inBubble(t, etcdfake.Options{Members: 3}, func(t *testing.T, r *rig) {
			s := r.session(lease.Options{})
			r.Put("held", "", s.ID())
			left := s.Remains()
			s.end(lease.ErrClosed, handOver) // it dies
			switch {
			case rule == nil:
			case rule.Method != "":
				r.Inject(*rule)
			case name == "somebody has deleted the session's key":
				r.Delete(s.own.key)
			default:
				require.NoError(t, revokeOnce(context.Background(), r.host.Cluster, s.ID()))
			}
			err := r.reclaim(left)
			if name == "somebody has revoked the lease, key and all" {
				require.ErrorIs(t, err, ErrGone)
			} else {
				require.NoError(t, err, name)
			}
			assert.Empty(t, r.Leases(), name)
			assert.Empty(t, r.Keys(""), name)
		})
	}
}

// rule: RC3
func TestALeaseThatWasTakenOverIsNotReclaimed(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(t *testing.T, r *rig) {
		s := r.session(lease.Options{})
		left := s.Remains()
		next := sessionOn(t, r.successor(), lease.Options{Resume: s.Detach()})
		require.ErrorIs(t, r.reclaim(left), lease.ErrTakenOver)
		sleep(time.Minute)
		require.NoError(t, next.Err())
		assert.Zero(t, r.Counts().Received["LeaseRevoke"])
		next.Detach()
		require.NoError(t, r.reclaim(next.Remains()), "what the next one left is another matter")
		assert.Empty(t, r.Leases())
	})
}

// rule: RC3
// The revocation may come any time after the deletion, and must not hit a lease that is taken over in between.
func TestALeaseThatIsBeingReclaimedIsNotTakenOver(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
		s := r.session(lease.Options{})
		left, h := s.Remains(), s.Detach()
		r.Inject(etcdfake.Rule{Method: "LeaseRevoke", Lose: true, Err: rpctypes.ErrGRPCPermissionDenied})
		require.ErrorIs(t, r.reclaim(left), cluster.ErrUnknown)
		_, err := Grant(context.Background(), r.successor(), lease.Options{Resume: h})
		require.ErrorIs(t, err, lease.ErrRevoked)
	})
}

// rule: RC3
func TestALeaseOfAnotherClusterIsNotReclaimed(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
		s := r.session(lease.Options{})
		left := s.Remains()
		left.Cluster++
		require.ErrorContains(t, r.reclaim(left), "of cluster")
		require.NoError(t, s.Err())
		assert.Len(t, r.Leases(), 1)
	})
}
