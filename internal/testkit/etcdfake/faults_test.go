package etcdfake

import (
	"context"
	"io"
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

func versionOf(c *Cluster, key string) int64 {
	if kv := c.Get(key); kv != nil {
		return kv.Version
	}
	return 0
}

func TestLostRequestIsNotAppliedAndHangs(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, c *Cluster) {
		a := connect(t, c, 0)
		f := c.Inject(Rule{Method: "Put", Lose: true, Times: 1})
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		start := time.Now()
		_, err := a.Put(ctx, put("k", "1", 0))
		assert.Equal(t, codes.DeadlineExceeded, status.Code(err))
		assert.Equal(t, 3*time.Second, time.Since(start))
		time.Sleep(time.Hour)
		assert.Nil(t, c.Get("k"))
		assert.Equal(t, 1, f.Hits())
		_, err = a.Put(t.Context(), put("k", "1", 0))
		assert.NoError(t, err, "only once")
		assert.Equal(t, 2, c.Counts().Received["Put"])
		assert.Equal(t, 1, c.Counts().Sent["Put"])
	})
}

func TestEveryCodeCanComeInPlaceOfAnAnswer(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, c *Cluster) {
		a := connect(t, c, 0)
		for code := codes.Canceled; code <= codes.Unauthenticated; code++ {
			for _, lose := range []bool{true, false} {
				before := versionOf(c, "k")
				c.Inject(Rule{Match: OnKey("k"), Lose: lose, Times: 1, Err: status.Error(code, "injected")})
				_, err := a.Put(t.Context(), put("k", "1", 0))
				assert.Equal(t, code, status.Code(err))
				assert.Equal(t, !lose, versionOf(c, "k") == before+1, "applied, %v", code)
			}
		}
	})
}

func TestNoSpaceInPlaceOfAnAnswerMayMeanApplied(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, c *Cluster) {
		c.Inject(Rule{Match: Writes, Err: rpctypes.ErrGRPCNoSpace})
		_, err := connect(t, c, 0).Txn(t.Context(), &pb.TxnRequest{Success: []*pb.RequestOp{
			{Request: &pb.RequestOp_RequestPut{RequestPut: put("k", "1", 0)}}}})
		assert.Equal(t, rpctypes.ErrGRPCNoSpace, err)
		assert.NotNil(t, c.Get("k"))
	})
}

func TestAppliedWithoutAnAnswerHangs(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, c *Cluster) {
		c.Inject(Rule{Hang: true})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := connect(t, c, 0).Put(ctx, put("k", "1", 0))
		assert.Equal(t, codes.DeadlineExceeded, status.Code(err))
		assert.NotNil(t, c.Get("k"))
	})
}

func TestDelayedRequestArrivesEvenIfTheClientIsGone(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, c *Cluster) {
		c.Inject(Rule{Delay: 10 * time.Second})
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		_, err := connect(t, c, 0).Put(ctx, put("k", "1", 0))
		assert.Equal(t, codes.DeadlineExceeded, status.Code(err))
		assert.Nil(t, c.Get("k"))
		time.Sleep(7*time.Second - time.Nanosecond)
		assert.Nil(t, c.Get("k"))
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		assert.NotNil(t, c.Get("k"))
	})
}

func TestLateRequestIsAppliedAfterItsError(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, c *Cluster) {
		c.Inject(Rule{Late: 5 * time.Second, Err: rpctypes.ErrGRPCTimeout})
		start := time.Now()
		_, err := connect(t, c, 0).Put(t.Context(), put("k", "1", 0))
		assert.Equal(t, rpctypes.ErrGRPCTimeout, err)
		assert.Zero(t, time.Since(start))
		time.Sleep(5 * time.Second)
		synctest.Wait()
		require.NotNil(t, c.Get("k"))
		assert.Equal(t, start.Add(5*time.Second), c.History()[0].At)
	})
}

func TestRequestAgainIsAppliedTwice(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, c *Cluster) {
		c.Inject(Rule{Method: "Put", Again: time.Minute, Times: 1})
		p, err := connect(t, c, 0).Put(t.Context(), put("k", "1", 0))
		require.NoError(t, err)
		assert.Equal(t, int64(2), p.Header.Revision)
		c.Delete("k")
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, int64(4), etcdapi.CreateRevision(c.Get("k")))
	})
}

func TestHeldAnswerComesLater(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, c *Cluster) {
		c.Inject(Rule{HoldAnswer: 2 * time.Second})
		start := time.Now()
		_, err := connect(t, c, 0).Put(t.Context(), put("k", "1", 0))
		require.NoError(t, err)
		assert.Equal(t, 2*time.Second, time.Since(start))
		assert.Equal(t, start, c.History()[0].At)
	})
}

func TestRulesAreForTheirMemberMethodAndNumber(t *testing.T) {
	inBubble(t, Options{Members: 2}, func(t *testing.T, c *Cluster) {
		a, b := connect(t, c, 0), connect(t, c, 1)
		f := c.Inject(Rule{Member: c.Member(1), Method: "Range", Skip: 1, Times: 2, Err: status.Error(codes.Internal, "x")})
		codesOf := func(who *client, n int) (out []codes.Code) {
			for range n {
				_, err := who.Range(t.Context(), get("k"))
				out = append(out, status.Code(err))
			}
			return out
		}
		assert.Equal(t, []codes.Code{codes.OK, codes.OK}, codesOf(a, 2))
		_, err := b.Put(t.Context(), put("k", "v", 0))
		require.NoError(t, err)
		assert.Equal(t, []codes.Code{codes.OK, codes.Internal, codes.Internal, codes.OK}, codesOf(b, 4))
		assert.Equal(t, 2, f.Hits())
		c.Inject(Rule{Err: status.Error(codes.Internal, "x")})
		g := c.Inject(Rule{Err: status.Error(codes.Aborted, "x")})
		assert.Equal(t, []codes.Code{codes.Internal}, codesOf(a, 1), "the first one decides")
		c.LiftAll()
		g.Lift()
		assert.Equal(t, []codes.Code{codes.OK}, codesOf(a, 1))
	})
}

func TestAnswersCanBeEdited(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, c *Cluster) {
		a := connect(t, c, 0)
		c.Put("k", "v", 0)
		f := c.Inject(Rule{Edit: EditHeader(func(h *pb.ResponseHeader) { h.RaftTerm--; h.Revision = 1; h.ClusterId++ })})
		r, err := a.Range(t.Context(), get("k"))
		require.NoError(t, err)
		f.Lift()
		s, err := a.Range(t.Context(), get("k"))
		require.NoError(t, err)
		assert.Equal(t, s.Header.RaftTerm-1, r.Header.RaftTerm)
		assert.Equal(t, s.Header.ClusterId+1, r.Header.ClusterId)
		assert.Equal(t, int64(1), r.Header.Revision)
		assert.Equal(t, int64(2), s.Header.Revision)
	})
}

// renewals sends on a stream and reads the answers.
func renewals(t *testing.T, c *client) pb.Lease_LeaseKeepAliveClient {
	s, err := c.LeaseKeepAlive(t.Context())
	require.NoError(t, err)
	return s
}

// renew sends one renewal and reads its answer. A stream that the member
// refuses may end before the request is sent: Send says io.EOF then, and Recv
// why.
func renew(t *testing.T, s pb.Lease_LeaseKeepAliveClient, id int64) (*pb.LeaseKeepAliveResponse, error) {
	t.Helper()
	if err := s.Send(&pb.LeaseKeepAliveRequest{ID: id}); err != io.EOF {
		require.NoError(t, err)
	}
	return s.Recv()
}

func TestRenewalOfARevokedLeaseCanBeConfirmed(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, c *Cluster) {
		c.Inject(Rule{Method: "LeaseKeepAlive", Forge: Confirm(15, func(h *pb.ResponseHeader) { h.RaftTerm-- })})
		r, err := renew(t, renewals(t, connect(t, c, 0)), 7)
		require.NoError(t, err)
		_, term := c.Leader()
		assert.Equal(t, int64(15), r.TTL)
		assert.Equal(t, term-1, r.Header.RaftTerm)
	})
}

func TestRenewalCanBeAnsweredWithTTLZero(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, c *Cluster) {
		a := connect(t, c, 0)
		_, err := a.LeaseGrant(t.Context(), &pb.LeaseGrantRequest{ID: 7, TTL: 60})
		require.NoError(t, err)
		c.Inject(Rule{Match: OnLease(7), Edit: EditTTL(0)})
		r, err := renew(t, renewals(t, a), 7)
		require.NoError(t, err)
		assert.Zero(t, r.TTL)
	})
}

func TestRenewalsCanStayUnansweredWhileOthersAreAnswered(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, c *Cluster) {
		a := connect(t, c, 0)
		for id := range int64(2) {
			_, err := a.LeaseGrant(t.Context(), &pb.LeaseGrantRequest{ID: id + 7, TTL: 60})
			require.NoError(t, err)
		}
		c.Inject(Rule{Method: "LeaseKeepAlive", Match: OnLease(7), Hang: true})
		s := renewals(t, a)
		require.NoError(t, s.Send(&pb.LeaseKeepAliveRequest{ID: 7}))
		r, err := renew(t, s, 8)
		require.NoError(t, err)
		assert.Equal(t, int64(8), r.ID)
		_, err = a.Range(t.Context(), get("k"))
		require.NoError(t, err)
	})
}

func TestDelayedRenewalHoldsUpItsStream(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, c *Cluster) {
		a := connect(t, c, 0)
		_, err := a.LeaseGrant(t.Context(), &pb.LeaseGrantRequest{ID: 7, TTL: 60})
		require.NoError(t, err)
		c.Inject(Rule{Method: "LeaseKeepAlive", Delay: 4 * time.Second, Times: 1})
		s, start := renewals(t, a), time.Now()
		require.NoError(t, s.Send(&pb.LeaseKeepAliveRequest{ID: 7}))
		require.NoError(t, s.Send(&pb.LeaseKeepAliveRequest{ID: 99}))
		for _, ttl := range []int64{60, 0} {
			r, err := s.Recv()
			require.NoError(t, err)
			assert.Equal(t, ttl, r.TTL)
			assert.Equal(t, 4*time.Second, time.Since(start))
		}
		l, _ := c.Lease(7)
		assert.Equal(t, start.Add(64*time.Second), l.Expires)
	})
}

func TestStreamsCanFailToOpenAndInTheirMidst(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, c *Cluster) {
		a := connect(t, c, 0)
		c.Inject(Rule{Method: "LeaseKeepAlive", Opening: true, Times: 1, Err: status.Error(codes.Unavailable, "x")})
		_, err := renewals(t, a).Recv()
		assert.Equal(t, codes.Unavailable, status.Code(err))
		c.Inject(Rule{Method: "LeaseKeepAlive", Times: 1, Err: status.Error(codes.Internal, "x")})
		_, err = renew(t, renewals(t, a), 7)
		assert.Equal(t, codes.Internal, status.Code(err))
		s := renewals(t, a)
		_, err = renew(t, s, 7)
		require.NoError(t, err)
		c.Member(0).EndStreams("LeaseKeepAlive", status.Error(codes.DataLoss, "x"))
		_, err = s.Recv()
		assert.Equal(t, codes.DataLoss, status.Code(err))
	})
}

func TestNoSpaceRefusesWritesAndServesDeletions(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, c *Cluster) {
		a := connect(t, c, 0)
		c.Put("k", "v", 0)
		c.SetNoSpace(true)
		_, err := a.Put(t.Context(), put("j", "v", 0))
		assert.Equal(t, rpctypes.ErrGRPCNoSpace, err)
		_, err = a.LeaseGrant(t.Context(), &pb.LeaseGrantRequest{TTL: 5})
		assert.Equal(t, rpctypes.ErrGRPCNoSpace, err)
		_, err = a.Txn(t.Context(), &pb.TxnRequest{Failure: []*pb.RequestOp{{Request: &pb.RequestOp_RequestPut{RequestPut: put("j", "v", 0)}}}})
		assert.Equal(t, rpctypes.ErrGRPCNoSpace, err)
		_, err = a.Txn(t.Context(), &pb.TxnRequest{Success: []*pb.RequestOp{
			{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: &pb.DeleteRangeRequest{Key: []byte("k")}}}}})
		assert.NoError(t, err)
		assert.Empty(t, c.Keys(""))
		s, err := a.Status(t.Context(), &pb.StatusRequest{})
		require.NoError(t, err)
		assert.NotEmpty(t, s.Errors)
		c.SetNoSpace(false)
		_, err = a.Put(t.Context(), put("j", "v", 0))
		assert.NoError(t, err)
	})
}

func TestRulesSeeTheMetadata(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, c *Cluster) {
		a := connect(t, c, 0)
		c.Inject(Rule{
			Match: func(r Request) bool { return len(r.Metadata.Get("hasleader")) > 0 },
			Err:   status.Error(codes.Aborted, "x"), Lose: true,
		})
		_, err := a.Range(t.Context(), get("k"))
		assert.NoError(t, err)
		_, err = a.Range(needLeader(t.Context()), get("k"))
		assert.Equal(t, codes.Aborted, status.Code(err))
	})
}
