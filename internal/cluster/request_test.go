package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/pawl-locks/pawl/internal/backoff"
	"github.com/pawl-locks/pawl/internal/etcdapi"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

// bubble runs f with n stubs in a synctest bubble. The Cluster is closed before the stubs are.
func bubble(t *testing.T, n int, f func(t *testing.T, ss *stubs, c *Cluster)) {
	synctest.Test(t, func(t *testing.T) {
		ss := newStubs(t, n)
		c := ss.connect(ss.config())
		synctest.Wait() // all members have been probed
		f(t, ss, c)
	})
}

func TestEveryRequestCarriesHasLeaderAndNotTheCallersMetadata(t *testing.T) {
	bubble(t, 1, func(t *testing.T, ss *stubs, c *Cluster) {
		var leader, own string
		ss.get(0).do(func(s *stub) {
			s.onTxn = func(ctx context.Context, _ int64, _ *pb.TxnRequest) (*pb.TxnResponse, error) {
				leader, own = mdOf(ctx, "hasleader"), mdOf(ctx, "mine")
				return &pb.TxnResponse{Header: s.header()}, nil
			}
		})
		ctx := metadata.AppendToOutgoingContext(t.Context(), "mine", "x")
		_, err := c.Txn(ctx, Request{Op: "txn"}, writing())
		require.NoError(t, err)
		assert.Equal(t, "true", leader)
		assert.Empty(t, own)
	})
}

func TestWhatIsProvedNotAppliedIsSentAtOnceToAnotherMember(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ss *stubs, c *Cluster) {
		var asked []string
		for i := range 3 {
			s := ss.get(i)
			s.do(func(s *stub) {
				s.onTxn = func(context.Context, int64, *pb.TxnRequest) (*pb.TxnResponse, error) {
					asked = append(asked, s.name)
					if len(asked) < 3 {
						return nil, rpctypes.ErrGRPCNoLeader
					}
					return &pb.TxnResponse{Header: s.header()}, nil
				}
			})
		}
		began := time.Now()
		_, err := c.Txn(t.Context(), Request{Op: "txn"}, writing())
		require.NoError(t, err)
		assert.Zero(t, time.Since(began))
		slices.Sort(asked)
		assert.Equal(t, []string{"m0:2379", "m1:2379", "m2:2379"}, asked)
	})
}

// A5: a request that may have been applied is not sent again, whatever the code with which it failed.
func TestWhatMayHaveBeenAppliedIsNotSentAgain(t *testing.T) {
	ambiguous := []error{
		rpctypes.ErrGRPCTimeout, rpctypes.ErrGRPCTimeoutDueToLeaderFail, rpctypes.ErrGRPCTimeoutDueToConnectionLost,
		rpctypes.ErrGRPCStopped, rpctypes.ErrGRPCLeaderChanged, rpctypes.ErrGRPCNoSpace, rpctypes.ErrGRPCCorrupt,
	}
	for c := codes.Canceled; c <= codes.Unauthenticated; c++ {
		if c != codes.Unimplemented {
			ambiguous = append(ambiguous, status.Error(c, "no text that anyone knows"))
		}
	}
	for _, want := range ambiguous {
		t.Run(want.Error(), func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, ss *stubs, c *Cluster) {
				ss.each(func(s *stub) { s.onTxn = answers(want) })
				_, err := c.Txn(t.Context(), Request{Op: "txn"}, writing())
				require.ErrorIs(t, err, ErrUnknown)
				outcome := Unknown
				if errors.Is(want, rpctypes.ErrGRPCNoSpace) {
					outcome = Answered
				}
				assert.Equal(t, outcome, OutcomeOf(err))
				assert.True(t, IsCode(err, status.Code(want)))
				assert.EqualValues(t, 1, ss.txns())
			})
		})
	}
}

func TestAlwaysIsSentAgainAfterAnUnknownOutcome(t *testing.T) {
	bubble(t, 2, func(t *testing.T, ss *stubs, c *Cluster) {
		first := true
		ss.each(func(s *stub) {
			s.onTxn = func(context.Context, int64, *pb.TxnRequest) (*pb.TxnResponse, error) {
				if first {
					first = false
					return nil, rpctypes.ErrGRPCTimeout
				}
				return &pb.TxnResponse{Header: s.header()}, nil
			}
		})
		_, err := c.Txn(t.Context(), Request{Op: "txn", Repeat: Always}, writing())
		require.NoError(t, err)
		assert.EqualValues(t, 2, ss.txns())
	})
}

func TestAnUnknownTryIsNotForgottenWhenALaterOneIsRefused(t *testing.T) {
	bubble(t, 1, func(t *testing.T, ss *stubs, c *Cluster) {
		ss.get(0).do(func(s *stub) {
			s.onTxn = func(_ context.Context, n int64, _ *pb.TxnRequest) (*pb.TxnResponse, error) {
				if n == 1 {
					return nil, rpctypes.ErrGRPCTimeout
				}
				return nil, rpctypes.ErrGRPCLeaseNotFound
			}
		})
		_, err := c.Txn(t.Context(), Request{Op: "txn", Repeat: Always}, writing())
		require.ErrorIs(t, err, ErrUnknown)
		assert.True(t, IsLeaseNotFound(err))
	})
}

func TestAReadIsRepeatedAndItsFailureIsNotApplied(t *testing.T) {
	bubble(t, 1, func(t *testing.T, ss *stubs, c *Cluster) {
		ss.get(0).do(func(s *stub) { s.onTxn = answers(rpctypes.ErrGRPCTimeout) })
		_, err := c.Txn(t.Context(), Request{Op: "txn", Total: time.Second}, reading())
		require.Error(t, err)
		assert.NotErrorIs(t, err, ErrUnknown)
		assert.Equal(t, NotApplied, OutcomeOf(err))
		assert.Greater(t, ss.txns(), int64(1))
	})
}

func TestAFinalRefusalIsNotRepeated(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ss *stubs, c *Cluster) {
		ss.each(func(s *stub) { s.onTxn = answers(rpctypes.ErrGRPCPermissionDenied) })
		_, err := c.Txn(t.Context(), Request{Op: "txn", Repeat: Always}, writing())
		assert.True(t, IsPermissionDenied(err))
		assert.Equal(t, NotApplied, OutcomeOf(err))
		assert.EqualValues(t, 1, ss.txns())
	})
}

func TestATryHasABoundOfItsOwn(t *testing.T) {
	bubble(t, 2, func(t *testing.T, ss *stubs, c *Cluster) {
		ss.each(func(s *stub) { s.onTxn = silent })
		began := time.Now()
		_, err := c.Txn(context.Background(), Request{Op: "txn"}, writing())
		require.ErrorIs(t, err, ErrUnknown)
		assert.NotErrorIs(t, err, context.DeadlineExceeded, "that is the caller's, and it has not ended")
		assert.Contains(t, err.Error(), "no answer in time")
		assert.Equal(t, 3*time.Second, time.Since(began))
	})
}

func TestASilentMemberIsLeftForAnotherAfterOneTry(t *testing.T) {
	bubble(t, 2, func(t *testing.T, ss *stubs, c *Cluster) {
		ss.get(0).do(func(s *stub) { s.onTxn = silent })
		for range 4 {
			began := time.Now()
			_, err := c.Txn(t.Context(), Request{Op: "txn", Repeat: Always}, writing())
			require.NoError(t, err)
			require.LessOrEqual(t, time.Since(began), 3*time.Second)
		}
		assert.EqualValues(t, 1, ss.get(0).txns.Load(), "it cools down")
	})
}

func TestAllTriesTogetherAreBoundWithoutADeadline(t *testing.T) {
	for total, want := range map[time.Duration]time.Duration{0: 12 * time.Second, 5 * time.Second: 5 * time.Second} {
		bubble(t, 2, func(t *testing.T, ss *stubs, c *Cluster) {
			ss.each(func(s *stub) { s.onTxn = silent })
			began := time.Now()
			_, err := c.Txn(context.Background(), Request{Op: "txn", Repeat: Always, Total: total}, writing())
			require.ErrorIs(t, err, ErrUnknown)
			within(t, want-backoff.Request().Most, want, time.Since(began))
		})
	}
}

func TestNothingIsSentWhenTheContextHasEnded(t *testing.T) {
	bubble(t, 1, func(t *testing.T, ss *stubs, c *Cluster) {
		cause := errors.New("the reason")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		_, err := c.Txn(ctx, Request{Op: "txn"}, writing())
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, cause)
		assert.Equal(t, NotApplied, OutcomeOf(err))
		assert.Zero(t, ss.txns())
	})
}

func TestTheContextsEndEndsTheRequestAndTheOutcomeIsUnknown(t *testing.T) {
	bubble(t, 1, func(t *testing.T, ss *stubs, c *Cluster) {
		ss.get(0).do(func(s *stub) { s.onTxn = silent })
		ctx, cancel := context.WithTimeout(t.Context(), 700*time.Millisecond)
		defer cancel()
		began := time.Now()
		_, err := c.Txn(ctx, Request{Op: "txn", Repeat: Always}, writing())
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, ErrUnknown)
		assert.Equal(t, 700*time.Millisecond, time.Since(began))
	})
}

func TestTheContextsEndEndsThePauseBetweenTries(t *testing.T) {
	bubble(t, 1, func(t *testing.T, ss *stubs, c *Cluster) {
		ss.get(0).do(func(s *stub) { s.onTxn = answers(rpctypes.ErrGRPCNoLeader) })
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		began := time.Now()
		_, err := c.Txn(ctx, Request{Op: "txn"}, writing())
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.True(t, isNoLeader(err), "the fault is reported too")
		assert.NotErrorIs(t, err, ErrUnknown)
		assert.Equal(t, 1500*time.Millisecond, time.Since(began))
	})
}

func TestWhatFoundNoConnectionWasNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ss := newStubs(t, 2)
		ss.hole["m1:2379"] = true
		c := ss.connect(ss.config())
		for range 2 {
			_, err := c.Txn(t.Context(), Request{Op: "txn"}, writing())
			require.NoError(t, err, "the one in the hole was never reached, so the other is tried")
		}
		on := member(t, c, "m1:2379")
		_, err := c.Txn(t.Context(), Request{Op: "txn", On: on}, writing())
		require.Error(t, err)
		assert.Equal(t, NotApplied, OutcomeOf(err))
	})
}

func TestAConnectionThatBreaksWhileWaitingLeavesTheOutcomeUnknown(t *testing.T) {
	bubble(t, 2, func(t *testing.T, ss *stubs, c *Cluster) {
		var stops sync.WaitGroup
		ss.each(func(s *stub) {
			s.onTxn = func(ctx context.Context, _ int64, _ *pb.TxnRequest) (*pb.TxnResponse, error) {
				stops.Go(s.server.Stop) // waits for this handler, which the connection's end ends
				<-ctx.Done()
				return nil, ctx.Err()
			}
		})
		_, err := c.Txn(t.Context(), Request{Op: "txn"}, writing())
		stops.Wait()
		require.ErrorIs(t, err, ErrUnknown)
		assert.EqualValues(t, 1, ss.txns())
	})
}

func TestPausesGrowWhenEveryMemberWasTried(t *testing.T) {
	bubble(t, 2, func(t *testing.T, ss *stubs, c *Cluster) {
		var at []time.Time
		ss.each(func(s *stub) {
			s.onTxn = func(context.Context, int64, *pb.TxnRequest) (*pb.TxnResponse, error) {
				at = append(at, time.Now())
				return nil, rpctypes.ErrGRPCNoLeader
			}
		})
		_, err := c.Txn(t.Context(), Request{Op: "txn"}, writing())
		require.True(t, isNoLeader(err))
		pause := backoff.Request().First
		for i := 2; i < len(at); i += 2 {
			within(t, pause/2, pause, at[i].Sub(at[i-1]))
			if i+1 < len(at) {
				assert.Zero(t, at[i+1].Sub(at[i]), "the other member is tried at once")
			}
			pause = min(2*pause, backoff.Request().Most)
		}
		assert.Equal(t, backoff.Request().Most, pause)
	})
}

func TestOnQueriesOneMemberOnce(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ss *stubs, c *Cluster) {
		ss.each(func(s *stub) { s.onTxn = answers(rpctypes.ErrGRPCNoLeader) })
		_, err := c.Txn(t.Context(), Request{Op: "txn", Repeat: Always, On: member(t, c, "m1:2379")}, reading())
		require.True(t, isNoLeader(err))
		assert.EqualValues(t, 1, ss.txns())
		assert.EqualValues(t, 1, ss.get(1).txns.Load())
	})
}

func TestAvoidIsHeeded(t *testing.T) {
	bubble(t, 2, func(t *testing.T, ss *stubs, c *Cluster) {
		for range 10 {
			_, err := c.Txn(t.Context(), Request{Op: "txn", Avoid: member(t, c, "m0:2379")}, writing())
			require.NoError(t, err)
		}
		assert.Zero(t, ss.get(0).txns.Load())
	})
}

func TestDoReportsOutcomesLikeTxn(t *testing.T) {
	bubble(t, 2, func(t *testing.T, ss *stubs, c *Cluster) {
		ss.each(func(s *stub) { s.onTxn = answers(rpctypes.ErrGRPCTimeout) })
		send := func(ctx context.Context, m *Member) (*pb.ResponseHeader, error) {
			resp, err := etcdapi.Txn(ctx, m, writing())
			return resp.GetHeader(), err
		}
		err := c.Do(t.Context(), Request{Op: "txn"}, send)
		require.ErrorIs(t, err, ErrUnknown)
		assert.EqualValues(t, 1, ss.txns())

		err = c.Do(t.Context(), Request{Op: "nothing"}, func(context.Context, *Member) (*pb.ResponseHeader, error) {
			return nil, errors.New("perhaps sent")
		})
		require.ErrorIs(t, err, ErrUnknown, "there is no evidence")
	})
}

func TestAnAnswerOfAnotherClusterIsAFailedTryWithUnknownOutcome(t *testing.T) {
	bubble(t, 2, func(t *testing.T, ss *stubs, c *Cluster) {
		ss.get(0).cluster.Store(8)
		var unknown int
		for range 2 {
			if _, err := c.Txn(t.Context(), Request{Op: "txn"}, writing()); err != nil {
				require.ErrorIs(t, err, ErrUnknown)
				unknown++
			}
		}
		assert.Equal(t, 1, unknown)
		for range 5 {
			_, err := c.Txn(t.Context(), Request{Op: "txn"}, writing())
			require.NoError(t, err, "it was set aside")
		}
		assert.NoError(t, c.Err())
	})
}

func TestCloseEndsRequestsUnderWay(t *testing.T) {
	bubble(t, 2, func(t *testing.T, ss *stubs, c *Cluster) {
		ss.each(func(s *stub) { s.onTxn = silent })
		var wg sync.WaitGroup
		wg.Go(func() { // ends with Close
			_, err := c.Txn(context.Background(), Request{Op: "txn", Repeat: Always}, writing())
			assert.ErrorIs(t, err, ErrClosed)
			assert.ErrorIs(t, err, ErrUnknown)
		})
		synctest.Wait()
		began := time.Now()
		require.NoError(t, c.Close())
		wg.Wait()
		assert.Zero(t, time.Since(began))
		<-c.Ended()
		assert.Equal(t, ErrClosed, c.Err())

		_, err := c.Txn(context.Background(), Request{Op: "txn"}, writing())
		require.ErrorIs(t, err, ErrClosed)
		assert.Equal(t, NotApplied, OutcomeOf(err))
		require.NoError(t, c.Close())
		assert.NotContains(t, ss.logged(), "member failing")
	})
}

func TestCloseEndsAPause(t *testing.T) {
	bubble(t, 1, func(t *testing.T, ss *stubs, c *Cluster) {
		ss.get(0).do(func(s *stub) { s.onTxn = answers(rpctypes.ErrGRPCNoLeader) })
		var wg sync.WaitGroup
		wg.Go(func() { // ends with Close
			_, err := c.Txn(context.Background(), Request{Op: "txn"}, writing())
			assert.ErrorIs(t, err, ErrClosed)
		})
		time.Sleep(5 * time.Second)
		_ = c.Close()
		wg.Wait()
	})
}

// Hazard W10, fact F14.
func TestALargeAnswerIsTaken(t *testing.T) {
	bubble(t, 1, func(t *testing.T, ss *stubs, c *Cluster) {
		ss.get(0).do(func(s *stub) {
			s.onTxn = func(context.Context, int64, *pb.TxnRequest) (*pb.TxnResponse, error) {
				kv := &mvccpb.KeyValue{Key: []byte("k"), Value: make([]byte, 9<<20)}
				r := &pb.ResponseOp_ResponseRange{ResponseRange: &pb.RangeResponse{Kvs: []*mvccpb.KeyValue{kv}}}
				return &pb.TxnResponse{Header: s.header(), Responses: []*pb.ResponseOp{{Response: r}}}, nil
			}
		})
		_, err := c.Txn(t.Context(), Request{Op: "txn"}, writing())
		require.NoError(t, err)
	})
}

func TestErrorsNameOperationAndEndpoint(t *testing.T) {
	bubble(t, 1, func(t *testing.T, ss *stubs, c *Cluster) {
		ss.get(0).do(func(s *stub) { s.onTxn = answers(rpctypes.ErrGRPCTooManyOps) })
		_, err := c.Txn(t.Context(), Request{Op: "txn"}, writing())
		assert.EqualError(t, err, "txn at m0:2379: etcdserver: too many operations in txn request")
		var e *Error
		require.ErrorAs(t, fmt.Errorf("lock: %w", err), &e)
		assert.Equal(t, codes.InvalidArgument, e.Code)
	})
}

func isNoLeader(err error) bool { return is(rpctypes.ErrGRPCNoLeader)(err) }
