package session

import (
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/etcdapi"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/lease"
)

// confirms forges a positive answer to every renewal, like that of a leader that does not know that it
// was deposed (F3).
func (r *rig) confirms(ttl int64) *etcdfake.Fault {
	return r.Inject(etcdfake.Rule{Method: "LeaseKeepAlive", Forge: func(q etcdfake.Request) (etcdapi.Message, error) {
		_, raftTerm := r.Leader()
		return &pb.LeaseKeepAliveResponse{
			Header: &pb.ResponseHeader{ClusterId: r.host.Cluster.ID(), MemberId: q.Member.ID(), RaftTerm: raftTerm, Revision: r.Revision()},
			ID:     q.Message.(*pb.LeaseKeepAliveRequest).ID, TTL: ttl,
		}, nil
	}})
}

// Rule N1, hazards S13, S14: a positive answer to the renewal of a lease that is gone extends nothing,
// because the read shows the loss, even if no watch delivered it.
// rule: N1
func TestAPositiveAnswerForAGoneLeaseEndsTheSessionAtTheRead(t *testing.T) {
	for name, gone := range map[string]func(r *rig, s *Session){
		"revoked": func(r *rig, s *Session) { r.Revoke(s.ID()) },
		"deleted": func(r *rig, s *Session) { r.Delete(s.own.key) },
	} {
		inBubble(t, etcdfake.Options{Members: 3}, func(t *testing.T, r *rig) {
			s := r.session(lease.Options{TTL: 6 * time.Second})
			r.confirms(6)
			for _, m := range r.Members() {
				muteWatches(m)
			}
			sleep(time.Second)
			gone(r, s)
			require.NoError(t, s.Err(), "nothing has shown it")
			sleep(500 * time.Millisecond) // the round at a quarter of the TTL
			oneCause(t, s.Err(), lease.ErrRevoked)
			assert.ErrorContains(t, s.Err(), "is not there at revision", name)
		})
	}
}

// Rule N1, with each header that does not confirm: the renewal counts as failed, the deadline stays,
// and the session does not end because of that alone.
// rule: N1, N2
func TestARenewalIsNotConfirmedBy(t *testing.T) {
	renewal := func(f func(*pb.ResponseHeader)) etcdfake.Rule {
		return etcdfake.Rule{Method: "LeaseKeepAlive", Edit: func(_ etcdfake.Request, m etcdapi.Message) { f(m.(*pb.LeaseKeepAliveResponse).Header) }}
	}
	read := func(f func(*pb.ResponseHeader)) etcdfake.Rule {
		return etcdfake.Rule{Op: "confirm session", Edit: func(_ etcdfake.Request, m etcdapi.Message) { f(m.(*pb.TxnResponse).Header) }}
	}
	stale := func(h *pb.ResponseHeader) { h.RaftTerm-- }
	for name, rules := range map[string][]etcdfake.Rule{
		"raft term 0 in the renewal":        {renewal(func(h *pb.ResponseHeader) { h.RaftTerm = 0 })},
		"raft term 0 in both":               {renewal(func(h *pb.ResponseHeader) { h.RaftTerm = 0 }), read(func(h *pb.ResponseHeader) { h.RaftTerm = 0 })},
		"an older raft term in the renewal": {renewal(stale)},
		"an older raft term in both":        {renewal(stale), read(stale)},
		"an older raft term in the read":    {read(stale)},
		"a newer raft term in the read":     {read(func(h *pb.ResponseHeader) { h.RaftTerm++ })},
		"another member in the read":        {read(func(h *pb.ResponseHeader) { h.MemberId++ })},
		"another member in the renewal":     {renewal(func(h *pb.ResponseHeader) { h.MemberId++ })},
		"a renewal without a header":        {{Method: "LeaseKeepAlive", Edit: func(_ etcdfake.Request, m etcdapi.Message) { m.(*pb.LeaseKeepAliveResponse).Header = nil }}},
		"an answer about another lease":     {{Method: "LeaseKeepAlive", Edit: func(_ etcdfake.Request, m etcdapi.Message) { m.(*pb.LeaseKeepAliveResponse).ID++ }}},
		"a read without an answer":          {{Op: "confirm session", Hang: true}},
		"a read that is refused":            {{Op: "confirm session", Lose: true, Err: rpctypes.ErrGRPCPermissionDenied}},
		"a read without a revision":         {read(func(h *pb.ResponseHeader) { h.Revision = 0 })},
		"a read refused as too long":        {{Op: "confirm session", Lose: true, Err: rpctypes.ErrGRPCTooManyOps}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, etcdfake.Options{Members: 3}, func(t *testing.T, r *rig) {
				s := r.session(lease.Options{TTL: 6 * time.Second})
				deadline := s.Deadline()
				for _, rule := range rules {
					r.Inject(rule)
				}
				sleep(5*time.Second - 1)
				require.NoError(t, s.Err(), "a failed renewal is no loss")
				require.Equal(t, deadline, s.Deadline())
				sleep(1)
				requireEnded(t, s, lease.ErrExpired)
			})
		})
		if name == "a newer raft term in the read" {
			continue // afterwards the others' terms are below one that was shown
		}
		// The failure of one member alone does not end the session.
		inBubble(t, etcdfake.Options{Members: 3}, func(t *testing.T, r *rig) {
			s := r.session(lease.Options{TTL: 6 * time.Second})
			for _, rule := range rules {
				rule.Member = r.Member(1)
				r.Inject(rule)
			}
			sleep(time.Minute)
			require.NoError(t, s.Err(), name)
		})
	}
}

// Rule N1: a raft term below the highest that any member has shown is not trusted, even if the renewal
// and its read agree on it.
func TestAMemberOfAnOlderTermConfirmsNothing(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 2}, func(t *testing.T, r *rig) {
		s := r.session(lease.Options{TTL: 6 * time.Second})
		back := func(h *pb.ResponseHeader) { h.RaftTerm = 1 }
		r.Inject(etcdfake.Rule{Member: r.Member(0), Method: "LeaseKeepAlive", Edit: func(_ etcdfake.Request, m etcdapi.Message) { back(m.(*pb.LeaseKeepAliveResponse).Header) }})
		r.Inject(etcdfake.Rule{Member: r.Member(0), Op: "confirm session", Edit: func(_ etcdfake.Request, m etcdapi.Message) { back(m.(*pb.TxnResponse).Header) }})
		noKeepAlive(r.Cluster, r.Member(1))
		<-s.Done()
		requireEnded(t, s, lease.ErrExpired)
		assert.ErrorContains(t, s.Err(), "raft term 1")
	})
}

// Hazard S14, fact F3: a leader that was deposed and continues to confirm does not keep the session of
// a revoked lease alive beyond its window.
// rule: N1
func TestADeposedLeaderThatGoesOnConfirmingExtendsNothing(t *testing.T) {
	for phase := range 30 {
		inBubble(t, etcdfake.Options{Members: 3, ExpiryTick: -1}, func(t *testing.T, r *rig) {
			s := r.session(lease.Options{TTL: 3 * time.Second})
			r.OnChange(func(ch etcdfake.Change) {
				if ch.Deleted && ch.Key == s.own.key && ch.Why == etcdfake.ByExpiry {
					assert.Error(t, s.Err(), "phase %d", phase)
				}
			})
			sleep(2*time.Second + time.Duration(phase)*25*time.Millisecond)
			leader, _ := r.Leader()
			r.Member(leader).Depose()
			for i, m := range r.Members() { // the client reaches only this one
				if i != leader {
					m.BlackHole()
				}
			}
			sleep(20 * time.Second)
			oneCause(t, s.Err(), lease.ErrExpired)
		})
	}
}

// Rule K4: a linearizable answer below the highest revision seen ends all
// sessions of the client.
// rule: K4
func TestARevisionThatGoesBackEndsAllSessions(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(t *testing.T, r *rig) {
		a, b := r.session(lease.Options{TTL: 6 * time.Second}), r.session(lease.Options{TTL: 60 * time.Second})
		r.Inject(etcdfake.Rule{Op: "confirm session", Times: 1, Edit: func(_ etcdfake.Request, m etcdapi.Message) {
			m.(*pb.TxnResponse).Header.Revision = 2
		}})
		sleep(1500 * time.Millisecond)
		requireEnded(t, a, cluster.ErrChanged)
		requireEnded(t, b, cluster.ErrChanged)
		_, err := Grant(t.Context(), r.host, lease.Options{})
		oneCause(t, err, cluster.ErrChanged)
	})
}

// Rule K4, F15: the headers of renewals prove nothing. Neither does an answer whose revision is below
// one that was received while it was under way.
func TestAnOldRevisionInARenewalsHeaderIsNoRegression(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(t *testing.T, r *rig) {
		s := r.session(lease.Options{TTL: 6 * time.Second})
		r.Inject(etcdfake.Rule{Method: "LeaseKeepAlive", Edit: func(_ etcdfake.Request, m etcdapi.Message) {
			m.(*pb.LeaseKeepAliveResponse).Header.Revision = 1
		}})
		sleep(time.Minute)
		require.NoError(t, s.Err())
	})
}

// Hazard C13: an answer of another cluster is dropped, TTL 0 and a missing
// session key included, and its endpoint set aside.
func TestAnotherClustersAnswerIsDropped(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(t *testing.T, r *rig) {
		s := r.session(lease.Options{TTL: 6 * time.Second})
		m := r.Member(1)
		m.SetClusterID(77)
		r.Inject(etcdfake.Rule{Member: m, Method: "LeaseKeepAlive", Edit: func(_ etcdfake.Request, m etcdapi.Message) {
			m.(*pb.LeaseKeepAliveResponse).TTL = 0
		}})
		sleep(time.Minute)
		require.NoError(t, s.Err())
		assert.Len(t, r.host.Cluster.Members(), 2)
	})
}

// An examination ends the session only if the server answers. Without an answer it proves nothing.
func TestAnExaminationEndsTheSessionOnTheServersWordAlone(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
		s := r.session(lease.Options{TTL: 60 * time.Second})
		require.NoError(t, s.Examine(t.Context()))
		f := r.Inject(etcdfake.Rule{Op: "read session key", Lose: true, Err: rpctypes.ErrGRPCPermissionDenied})
		require.Error(t, s.Examine(t.Context()))
		require.NoError(t, s.Err())
		f.Lift()
		muteWatches(r.Member(0))
		r.Delete(s.own.key)
		oneCause(t, s.Examine(t.Context()), lease.ErrRevoked)
		oneCause(t, s.Err(), lease.ErrRevoked)
		n := r.Counts().Received["Txn"]
		oneCause(t, s.Examine(t.Context()), lease.ErrRevoked)
		assert.Equal(t, n, r.Counts().Received["Txn"], "a dead session asks nothing (hazard S20)")
	})
}

// RenewNow leads to a renewal that is sent after the call. Many calls share one.
func TestARenewalThatIsWantedAtOnce(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
		s := r.session(lease.Options{TTL: 60 * time.Second})
		muteWatches(r.Member(0))
		sleep(time.Second)
		r.Inject(etcdfake.Rule{Method: "LeaseKeepAlive", HoldAnswer: time.Millisecond, Times: 1}) // no renewal ends during the burst
		for range 1000 {
			s.RenewNow()
		}
		sleep(time.Millisecond)
		assert.LessOrEqual(t, r.renewals(), 2)
		n := r.renewals()
		f := r.Inject(etcdfake.Rule{Op: "confirm session", HoldAnswer: 100 * time.Millisecond, Times: 1})
		s.RenewNow()
		sleep(50 * time.Millisecond)
		require.Equal(t, 1, f.Hits())
		r.Delete(s.own.key)
		s.RenewNow() // the read under way was sent before this call
		sleep(50*time.Millisecond - 1)
		require.NoError(t, s.Err())
		sleep(1)
		oneCause(t, s.Err(), lease.ErrRevoked)
		assert.Equal(t, n+2, r.renewals())
	})
}
