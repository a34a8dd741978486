package etcdfake

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawl-locks/pawl/internal/etcdapi"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func TestBlackHoleSwallowsNothingForGood(t *testing.T) {
	inBubble(t, Options{Members: 2}, func(t *testing.T, c *Cluster) {
		a, b := connect(t, c, 0), connect(t, c, 1)
		_, err := a.Put(t.Context(), put("k", "1", 0))
		require.NoError(t, err)
		c.Member(0).BlackHole()
		_, err = a.Put(within(t, 3*time.Second), put("k", "2", 0))
		assert.Equal(t, codes.DeadlineExceeded, status.Code(err))
		_, err = connect(t, c, 0).Range(within(t, 3*time.Second), get("k"))
		assert.Equal(t, codes.DeadlineExceeded, status.Code(err), "a new connection gets no answer")
		_, err = b.Range(t.Context(), get("k"))
		assert.NoError(t, err)
		assert.Equal(t, int64(1), versionOf(c, "k"))
		c.Member(0).Heal()
		_, err = a.Range(t.Context(), get("k"))
		assert.NoError(t, err, "the old connection goes on")
	})
}

func TestMuteMemberAppliesWhatItDoesNotAnswer(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, c *Cluster) {
		a := connect(t, c, 0)
		_, err := a.Put(t.Context(), put("k", "1", 0))
		require.NoError(t, err)
		c.Member(0).Mute()
		_, err = a.Put(within(t, time.Second), put("k", "2", 0))
		assert.Equal(t, codes.DeadlineExceeded, status.Code(err))
		assert.Equal(t, int64(2), versionOf(c, "k"))
		c.Member(0).Heal()
		c.Member(0).Deafen()
		_, err = a.Put(within(t, time.Second), put("k", "3", 0))
		assert.Equal(t, codes.DeadlineExceeded, status.Code(err))
		assert.Equal(t, int64(2), versionOf(c, "k"))
	})
}

func TestCutResetsAndRefuses(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, c *Cluster) {
		a := connect(t, c, 0)
		s := renewals(t, a)
		_, err := renew(t, s, 7)
		require.NoError(t, err)
		c.Cut()
		_, err = s.Recv()
		assert.Equal(t, codes.Unavailable, status.Code(err))
		_, err = a.Range(t.Context(), get("k"))
		assert.Equal(t, codes.Unavailable, status.Code(err))
		c.Heal()
		time.Sleep(10 * time.Second) // a client's backoff
		_, err = a.Range(t.Context(), get("k"))
		assert.NoError(t, err)
	})
}

func TestDelayIsForEachWay(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, c *Cluster) {
		a := connect(t, c, 0)
		_, err := a.Range(t.Context(), get("k"))
		require.NoError(t, err)
		c.Member(0).SetDelay(Fixed(30*time.Millisecond), Fixed(20*time.Millisecond))
		start := time.Now()
		_, err = a.Put(t.Context(), put("k", "", 0))
		require.NoError(t, err)
		assert.Equal(t, 50*time.Millisecond, time.Since(start))
		assert.Equal(t, 30*time.Millisecond, c.History()[0].At.Sub(start))
	})
}

func TestIsolatedFollowerFailsWhatNeedsAgreement(t *testing.T) {
	inBubble(t, Options{Members: 3}, func(t *testing.T, c *Cluster) {
		a := connect(t, c, 2)
		c.Put("k", "1", 0)
		c.Member(2).Isolate()
		c.Put("k", "2", 0)
		start := time.Now()
		_, err := a.Put(t.Context(), put("k", "3", 0))
		assert.Equal(t, rpctypes.ErrGRPCTimeout, err)
		assert.Equal(t, 7*time.Second, time.Since(start))
		_, err = a.Range(t.Context(), get("k"))
		assert.Equal(t, rpctypes.ErrGRPCTimeout, err)
		_, err = a.Range(needLeader(t.Context()), get("k"))
		assert.Equal(t, rpctypes.ErrGRPCNoLeader, err)
		old := get("k")
		old.Serializable = true
		r, err := a.Range(t.Context(), old)
		require.NoError(t, err)
		assert.Equal(t, "1", string(r.Kvs[0].Value))
		assert.Equal(t, int64(2), r.Header.Revision)
		i, _ := c.Leader()
		assert.Equal(t, 0, i, "the others still have their leader")
		c.Member(2).Heal()
		r, err = a.Range(t.Context(), get("k"))
		require.NoError(t, err)
		assert.Equal(t, "2", string(r.Kvs[0].Value))
	})
}

func TestIsolationEndsWhileARequestWaits(t *testing.T) {
	inBubble(t, Options{Members: 3}, func(t *testing.T, c *Cluster) {
		c.Member(2).Isolate()
		c.later(2*time.Second, c.Member(2).Heal)
		start := time.Now()
		_, err := connect(t, c, 2).Put(t.Context(), put("k", "3", 0))
		require.NoError(t, err)
		assert.Equal(t, 2*time.Second, time.Since(start))
	})
}

func TestStreamsThatWantALeaderEndWhenIsolated(t *testing.T) {
	inBubble(t, Options{Members: 3}, func(t *testing.T, c *Cluster) {
		a := connect(t, c, 2)
		open := func(ctx context.Context) pb.Watch_WatchClient {
			w, err := a.Watch(ctx)
			require.NoError(t, err)
			require.NoError(t, w.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{
				CreateRequest: &pb.WatchCreateRequest{Key: []byte("k")}}}))
			_, err = w.Recv()
			require.NoError(t, err)
			return w
		}
		patient, impatient := open(t.Context()), open(needLeader(t.Context()))
		c.Member(2).Isolate()
		start := time.Now()
		_, err := impatient.Recv()
		assert.Equal(t, rpctypes.ErrGRPCNoLeader, err)
		assert.Equal(t, 3700*time.Millisecond, time.Since(start))
		c.Put("k", "1", 0)
		time.Sleep(time.Hour)
		c.Member(2).Heal()
		r, err := patient.Recv()
		require.NoError(t, err)
		assert.Len(t, r.Events, 1, "what happened meanwhile is delivered after it")
	})
}

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

func TestFastClockEndsLeasesEarly(t *testing.T) {
	inBubble(t, Options{ExpiryTick: -1}, func(t *testing.T, c *Cluster) {
		c.SetClockRate(1.25)
		_, err := connect(t, c, 0).LeaseGrant(t.Context(), &pb.LeaseGrantRequest{ID: 7, TTL: 10})
		require.NoError(t, err)
		l, _ := c.Lease(7)
		assert.Equal(t, 8*time.Second, time.Until(l.Expires))
	})
}

func TestLearnerVersionAndClusterID(t *testing.T) {
	inBubble(t, Options{Members: 2}, func(t *testing.T, c *Cluster) {
		a, m := connect(t, c, 1), c.Member(1)
		m.SetLearner(true)
		m.SetVersion("3.4.1")
		m.SetClusterID(5)
		_, err := a.Range(t.Context(), get("k"))
		assert.Equal(t, etcdapi.ErrNotSupportedForLearner, err)
		_, err = renew(t, renewals(t, a), 7)
		assert.Equal(t, etcdapi.ErrNotSupportedForLearner, err)
		s, err := a.Status(t.Context(), &pb.StatusRequest{})
		require.NoError(t, err)
		assert.True(t, s.IsLearner)
		assert.Equal(t, "3.4.1", s.Version)
		assert.Equal(t, uint64(5), s.Header.ClusterId)
		l, err := connect(t, c, 0).MemberList(t.Context(), &pb.MemberListRequest{})
		require.NoError(t, err)
		assert.True(t, l.Members[1].IsLearner)
		assert.Equal(t, "http://"+m.Endpoint(), l.Members[1].ClientURLs[0])
	})
}
