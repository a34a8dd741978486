package etcdfake

import (
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

func TestIsolatedLeaderConfirmsForAWhileWhatItCannotRenew(t *testing.T) {
	inBubble(t, Options{Members: 3, ExpiryTick: -1}, func(t *testing.T, c *Cluster) {
		a := connect(t, c, 0)
		_, err := a.LeaseGrant(t.Context(), &pb.LeaseGrantRequest{ID: 7, TTL: 5})
		require.NoError(t, err)
		s := renewals(t, a)
		before, err := renew(t, s, 7)
		require.NoError(t, err)
		start := time.Now()
		c.Member(0).Isolate()
		i, term := c.Leader()
		assert.NotEqual(t, 0, i)
		assert.Equal(t, before.Header.RaftTerm+1, term)
		c.Revoke(7)
		time.Sleep(1899 * time.Millisecond)
		r, err := renew(t, s, 7)
		require.NoError(t, err)
		assert.Equal(t, int64(5), r.TTL, "although it is gone")
		assert.Equal(t, before.Header, r.Header)
		time.Sleep(time.Millisecond)
		_, err = renew(t, s, 7)
		assert.Equal(t, rpctypes.ErrGRPCNoLeader, err)
		assert.Equal(t, 8900*time.Millisecond, time.Since(start))
	})
}

func TestDeposedLeaderGoesOnAsIfNothingHadHappened(t *testing.T) {
	inBubble(t, Options{Members: 3, ExpiryTick: -1}, func(t *testing.T, c *Cluster) {
		a, b := connect(t, c, 0), connect(t, c, 1)
		_, err := a.LeaseGrant(t.Context(), &pb.LeaseGrantRequest{ID: 7, TTL: 5})
		require.NoError(t, err)
		_, term := c.Leader()
		c.Member(0).Depose()
		s := renewals(t, a)
		start := time.Now()
		for time.Since(start) < 20*time.Second {
			r, err := renew(t, s, 7)
			require.NoError(t, err)
			require.Equal(t, int64(5), r.TTL)
			require.Equal(t, term, r.Header.RaftTerm)
			time.Sleep(time.Second)
		}
		st, err := a.Status(needLeader(t.Context()), &pb.StatusRequest{})
		require.NoError(t, err)
		assert.Equal(t, c.Member(0).ID(), st.Leader)
		_, ok := c.Lease(7)
		assert.False(t, ok, "its renewals had no effect")
		st, err = b.Status(t.Context(), &pb.StatusRequest{})
		require.NoError(t, err)
		assert.Equal(t, term+1, st.RaftTerm)
		_, err = a.Range(t.Context(), get("k"))
		assert.Equal(t, rpctypes.ErrGRPCTimeout, err)
		c.Member(0).Heal()
		r, err := renew(t, s, 7)
		require.NoError(t, err)
		assert.Zero(t, r.TTL)
		assert.Equal(t, term+1, r.Header.RaftTerm)
	})
}

func TestWithoutAMajorityNothingExpires(t *testing.T) {
	inBubble(t, Options{Members: 3, ExpiryTick: -1}, func(t *testing.T, c *Cluster) {
		a := connect(t, c, 2)
		_, err := a.LeaseGrant(t.Context(), &pb.LeaseGrantRequest{ID: 7, TTL: 5})
		require.NoError(t, err)
		c.Member(0).Stop()
		c.Member(1).Stop()
		_, err = a.Put(t.Context(), put("k", "", 0))
		assert.Equal(t, rpctypes.ErrGRPCTimeout, err)
		time.Sleep(time.Hour)
		_, ok := c.Lease(7)
		assert.True(t, ok)
		c.Member(1).Heal()
		l, _ := c.Lease(7)
		assert.Equal(t, time.Now().Add(6*time.Second), l.Expires, "its full TTL and an election timeout")
		_, err = a.Put(t.Context(), put("k", "", 0))
		assert.NoError(t, err)
	})
}

func TestFrozenMemberReadsThePastAndWritesThePresent(t *testing.T) {
	inBubble(t, Options{Members: 2}, func(t *testing.T, c *Cluster) {
		a := connect(t, c, 1)
		c.Put("k", "1", 0)
		c.Member(1).Freeze()
		c.Delete("k")
		r, err := a.Range(t.Context(), get("k"))
		require.NoError(t, err)
		assert.Len(t, r.Kvs, 1)
		assert.Equal(t, int64(2), r.Header.Revision)
		x, err := a.Txn(t.Context(), &pb.TxnRequest{
			Compare: []*pb.Compare{{Key: []byte("k"), Target: pb.Compare_CREATE, TargetUnion: &pb.Compare_CreateRevision{CreateRevision: 2}}},
			Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestRange{RequestRange: get("k")}}}})
		require.NoError(t, err)
		assert.True(t, x.Succeeded)
		p, err := a.Put(t.Context(), put("k", "2", 0))
		require.NoError(t, err)
		assert.Equal(t, int64(4), p.Header.Revision)
		c.Member(1).Heal()
		r, err = a.Range(t.Context(), get("k"))
		require.NoError(t, err)
		assert.Equal(t, int64(4), r.Kvs[0].CreateRevision)
	})
}

func TestNewLeaderGivesLeasesTheirTimeAgain(t *testing.T) {
	inBubble(t, Options{Members: 3}, func(t *testing.T, c *Cluster) {
		a := connect(t, c, 0)
		_, err := a.LeaseGrant(t.Context(), &pb.LeaseGrantRequest{ID: 7, TTL: 5})
		require.NoError(t, err)
		time.Sleep(4 * time.Second)
		c.ChangeLeader(1)
		l, _ := c.Lease(7)
		assert.Equal(t, time.Now().Add(6*time.Second), l.Expires)
		time.Sleep(6*time.Second + 500*time.Millisecond)
		synctest.Wait()
		_, ok := c.Lease(7)
		assert.False(t, ok)
	})
}
