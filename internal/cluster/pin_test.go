package cluster

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

func header(rev int64) *pb.ResponseHeader {
	return &pb.ResponseHeader{ClusterId: 7, MemberId: 1, RaftTerm: 2, Revision: rev}
}

// K4.
// rule: K4
func TestALinearizableAnswerBelowItsFloorEndsTheCluster(t *testing.T) {
	bubble(t, 2, func(t *testing.T, ss *stubs, c *Cluster) {
		m := c.Pick()
		require.NoError(t, c.Check(m, header(20), 0, true))
		require.NoError(t, c.Check(m, header(20), 20, true), "equal is not below")
		err := c.Check(m, header(19), 20, true)
		require.ErrorIs(t, err, ErrChanged)
		require.ErrorIs(t, c.Err(), ErrChanged)
		<-c.Ended()
		_, err = c.Txn(t.Context(), Request{Op: "txn"}, writing())
		require.ErrorIs(t, err, ErrChanged)
		assert.Equal(t, NotApplied, OutcomeOf(err))
		assert.Zero(t, ss.txns())
		require.NoError(t, c.Close())
		assert.ErrorIs(t, c.Err(), ErrChanged, "the first reason stays")
	})
}

// F15: the floor is the highest revision when the request was sent, not when the answer came.
func TestAnAnswerOvertakenByAnotherIsNoSetback(t *testing.T) {
	bubble(t, 1, func(t *testing.T, ss *stubs, c *Cluster) {
		s := ss.get(0)
		s.do(func(s *stub) {
			s.onTxn = func(_ context.Context, n int64, _ *pb.TxnRequest) (*pb.TxnResponse, error) {
				if n == 1 {
					h := s.header()
					_, err := c.Txn(t.Context(), Request{Op: "txn"}, writing()) // answered first, at a higher revision
					return &pb.TxnResponse{Header: h}, err
				}
				s.revision.Store(50)
				return &pb.TxnResponse{Header: s.header()}, nil
			}
		})
		_, err := c.Txn(t.Context(), Request{Op: "txn"}, writing())
		require.NoError(t, err)
		assert.EqualValues(t, 50, c.revision.Load())
		assert.NoError(t, c.Err())
	})
}

func TestATransactionsFloorIsReadBeforeItIsSent(t *testing.T) {
	bubble(t, 2, func(t *testing.T, ss *stubs, c *Cluster) {
		require.NoError(t, c.Check(c.Pick(), header(11), 0, true))
		_, err := c.Txn(t.Context(), Request{Op: "txn"}, writing()) // the stubs answer at 10
		require.ErrorIs(t, err, ErrChanged)
		require.ErrorIs(t, err, ErrUnknown, "it may have been applied there")
	})
}

func TestOnlyLinearizableAnswersRaiseOrCheckTheRevision(t *testing.T) {
	bubble(t, 1, func(t *testing.T, _ *stubs, c *Cluster) {
		m := c.Pick()
		require.Zero(t, c.revision.Load(), "Status, which Dial asks for, proves nothing")
		require.NoError(t, c.Check(m, header(30), 0, false))
		require.Zero(t, c.revision.Load())
		require.NoError(t, c.Check(m, header(20), 0, true))
		require.NoError(t, c.Check(m, header(5), 20, false))
		assert.EqualValues(t, 20, c.revision.Load())
	})
}

func TestTheTermIsTheHighestOfAnyAnswer(t *testing.T) {
	bubble(t, 1, func(t *testing.T, _ *stubs, c *Cluster) {
		require.EqualValues(t, 2, c.RaftTerm())
		h := header(20)
		h.RaftTerm = 9
		require.NoError(t, c.Check(c.Pick(), h, 0, false))
		require.NoError(t, c.Check(c.Pick(), header(20), 0, false))
		assert.EqualValues(t, 9, c.RaftTerm())
	})
}

func TestAnswersThatSayNothingAreRefused(t *testing.T) {
	bubble(t, 1, func(t *testing.T, _ *stubs, c *Cluster) {
		m := c.Pick()
		assert.Error(t, c.Check(m, nil, 0, true))
		assert.Error(t, c.Check(m, &pb.ResponseHeader{Revision: 5}, 0, true))
		assert.Error(t, c.Check(m, header(0), 0, true))
		assert.NoError(t, c.Err())
		assert.Len(t, c.Members(), 1)
	})
}

// Hazard C13.
// rule: K4
func TestAnEndpointOfAnotherClusterIsSetAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ss := newStubs(t, 3)
		cfg := ss.config()
		ss.get(2).cluster.Store(8)
		ss.get(2).do(func(s *stub) { s.onStatus = func(context.Context, int64) error { time.Sleep(time.Second); return nil } })
		c := ss.connect(cfg)
		time.Sleep(2 * time.Second)
		require.EqualValues(t, 7, c.ID())
		assert.Len(t, c.Members(), 2)
		for range 9 {
			assert.NotEqual(t, "m2:2379", c.Pick().Endpoint())
		}
		assert.Contains(t, ss.logged(), "set aside")
		assert.Contains(t, ss.logged(), "m2:2379")
		assert.NoError(t, c.Err())
	})
}

// foreignAnswer processes an answer of another cluster from m.
func foreignAnswer(t *testing.T, c *Cluster, name string) {
	t.Helper()
	other := header(20)
	other.ClusterId = 8
	err := c.Check(member(t, c, name), other, 0, true)
	require.ErrorIs(t, err, errForeign)
	require.NotErrorIs(t, err, ErrChanged)
}

func TestWhenNoEndpointOfTheClusterIsLeftItHasChanged(t *testing.T) {
	bubble(t, 2, func(t *testing.T, ss *stubs, c *Cluster) {
		ss.each(func(s *stub) { s.cluster.Store(8) })
		foreignAnswer(t, c, "m0:2379")
		synctest.Wait()
		require.NoError(t, c.Err())
		foreignAnswer(t, c, "m1:2379")
		<-c.Ended()
		require.ErrorIs(t, c.Err(), ErrChanged)
		assert.NotNil(t, c.Pick())
	})
}

// K4: an endpoint is the cluster's again when it answers as the cluster.
func TestAnEndpointThatWasSetAsideComesBackWhenItAnswersRightly(t *testing.T) {
	bubble(t, 2, func(t *testing.T, ss *stubs, c *Cluster) {
		ss.get(0).cluster.Store(8)
		foreignAnswer(t, c, "m0:2379")
		time.Sleep(time.Minute)
		require.Len(t, c.Members(), 1)
		ss.get(0).cluster.Store(7)
		time.Sleep(recheckEvery * 12 / 10)
		require.Len(t, c.Members(), 2)
		assert.Contains(t, ss.logged(), "again")
		for range 4 {
			_, err := c.Txn(t.Context(), Request{Op: "txn"}, writing())
			require.NoError(t, err)
		}
		assert.NotZero(t, ss.get(0).txns.Load())
	})
}

// K4: one foreign answer of the last endpoint in use ends nothing while any endpoint is the cluster's,
// whether the same one or one that was set aside long ago.
// rule: K4
func TestOneForeignAnswerOfTheLastEndpointEndsNothingWhileOneIsHealthy(t *testing.T) {
	for name, healthy := range map[string][]int{"the one set aside": {0}, "the last one": {1}, "both": {0, 1}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 2, func(t *testing.T, ss *stubs, c *Cluster) {
				ss.each(func(s *stub) { s.cluster.Store(8) })
				foreignAnswer(t, c, "m0:2379")
				time.Sleep(time.Minute) // confirmed many times
				for _, i := range healthy {
					ss.get(i).cluster.Store(7)
				}
				foreignAnswer(t, c, "m1:2379")
				time.Sleep(time.Minute)
				require.NoError(t, c.Err())
				_, err := c.Txn(t.Context(), Request{Op: "txn"}, writing())
				require.NoError(t, err)
				assert.Len(t, c.Members(), len(healthy))
			})
		})
	}
}

// A request that cannot be repeated does not prove another cluster.
func TestAForeignAnswerIsConfirmedBeforeTheClusterEnds(t *testing.T) {
	bubble(t, 1, func(t *testing.T, ss *stubs, c *Cluster) {
		ss.get(0).do(func(s *stub) {
			s.onStatus = func(context.Context, int64) error { return status.Error(codes.Unavailable, "etcdserver: not now") }
		})
		foreignAnswer(t, c, "m0:2379")
		time.Sleep(time.Hour)
		require.NoError(t, c.Err())
		ss.get(0).cluster.Store(8)
		ss.get(0).do(func(s *stub) { s.onStatus = nil })
		time.Sleep(2 * urgentEvery)
		require.ErrorIs(t, c.Err(), ErrChanged)
	})
}
