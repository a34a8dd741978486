package cluster

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/pawl-locks/pawl/internal/etcdapi"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

// intercepted runs f on a Cluster of two stubs whose transactions go through the user's interceptor in.
func intercepted(t *testing.T, in grpc.UnaryClientInterceptor, f func(t *testing.T, ss *stubs, c *Cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ss := newStubs(t, 2)
		cfg := ss.config()
		cfg.DialOptions = append(cfg.DialOptions, grpc.WithUnaryInterceptor(
			func(ctx context.Context, method string, req, answer any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
				if _, ok := req.(*pb.TxnRequest); !ok {
					return invoke(ctx, method, req, answer, conn, opts...)
				}
				return in(ctx, method, req, answer, conn, invoke, opts...)
			}))
		c := ss.connect(cfg)
		synctest.Wait()
		f(t, ss, c)
	})
}

// ended is a context made from ctx that has ended, so that gRPC makes no stream with it.
func ended(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	return ctx
}

// Guarantee 3: whatever an interceptor does, "not applied" needs evidence, and without it the outcome
// is unknown.
// rule: C1
func TestAnOutcomeRestsOnEvidenceWhateverInterceptorsDo(t *testing.T) {
	lost := status.Error(codes.Unavailable, "error reading from server: EOF")
	for name, tc := range map[string]struct {
		in     grpc.UnaryClientInterceptor
		server error
		want   Outcome
		sent   int64 // requests that the server received
	}{
		"drops the options, answer lost": {func(ctx context.Context, method string, req, answer any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, _ ...grpc.CallOption) error {
			return invoke(ctx, method, req, answer, conn)
		}, lost, Unknown, 1},
		"drops the options, refused": {func(ctx context.Context, method string, req, answer any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, _ ...grpc.CallOption) error {
			return invoke(ctx, method, req, answer, conn)
		}, rpctypes.ErrGRPCTooManyOps, NotApplied, 1},
		"drops the options, no stream": {func(ctx context.Context, method string, req, answer any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, _ ...grpc.CallOption) error {
			_ = invoke(ended(ctx), method, req, answer, conn)
			return rpctypes.ErrGRPCTooManyOps // stops
		}, nil, NotApplied, 0},
		"sends 19 times, the last one without a stream": {func(ctx context.Context, method string, req, answer any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			for range 18 {
				_ = invoke(ctx, method, req, answer, conn, opts...)
			}
			_ = invoke(ended(ctx), method, req, answer, conn)
			return rpctypes.ErrGRPCNoLeader
		}, lost, Unknown, 18},
		"sends 19 times, all of them executed, and fails": {func(ctx context.Context, method string, req, answer any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			for range 19 {
				_ = invoke(ctx, method, req, answer, conn)
			}
			return rpctypes.ErrGRPCNoLeader
		}, nil, Answered, 19},
		"sends 19 times, all refused": {func(ctx context.Context, method string, req, answer any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) (err error) {
			for range 19 {
				err = invoke(ctx, method, req, answer, conn, opts...)
			}
			return err
		}, rpctypes.ErrGRPCTooManyOps, NotApplied, 19},
		"sends nothing": {func(context.Context, string, any, any, *grpc.ClientConn, grpc.UnaryInvoker, ...grpc.CallOption) error {
			return errors.New("the breaker is open")
		}, nil, Unknown, 0},
		"sends with a context of its own": {func(_ context.Context, method string, req, answer any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			return invoke(context.Background(), method, req, answer, conn, opts...)
		}, rpctypes.ErrGRPCTooManyOps, Unknown, 1},
		"sends with another deadline": {func(ctx context.Context, method string, req, answer any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			ctx, cancel := context.WithTimeout(ctx, time.Millisecond)
			defer cancel()
			return invoke(ctx, method, req, answer, conn, opts...)
		}, rpctypes.ErrGRPCTooManyOps, NotApplied, 1},
		"says in its own words what the server said": {func(ctx context.Context, method string, req, answer any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			return errors.New("request: " + invoke(ctx, method, req, answer, conn, opts...).Error())
		}, lost, Unknown, 1},
		"lies about what the server said": {func(ctx context.Context, method string, req, answer any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			_ = invoke(ctx, method, req, answer, conn, opts...)
			return rpctypes.ErrGRPCTooManyOps
		}, lost, Unknown, 1},
		"calls the connection itself": {func(ctx context.Context, method string, req, answer any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			if ctx.Value(valueKey{}) != nil {
				return invoke(ctx, method, req, answer, conn)
			}
			return conn.Invoke(context.WithValue(ctx, valueKey{}, 1), method, req, answer)
		}, lost, Unknown, 1},
	} {
		t.Run(name, func(t *testing.T) {
			intercepted(t, tc.in, func(t *testing.T, ss *stubs, c *Cluster) {
				ss.each(func(s *stub) {
					s.onTxn = func(context.Context, int64, *pb.TxnRequest) (*pb.TxnResponse, error) {
						return &pb.TxnResponse{Header: s.header()}, tc.server
					}
				})
				_, err := c.Txn(t.Context(), Request{Op: "txn"}, writing())
				require.Error(t, err)
				assert.Equal(t, tc.want, OutcomeOf(err), "%v", err)
				assert.Equal(t, tc.want != NotApplied, errors.Is(err, ErrUnknown))
				assert.Equal(t, tc.sent, ss.txns())

				_, err = c.Txn(t.Context(), Request{Op: "txn"}, reading())
				require.Error(t, err)
				assert.Equal(t, NotApplied, OutcomeOf(err), "a read is harmless")
			})
		})
	}
}

type valueKey struct{}

// An answer shows the outcome of a request only if no other copy of it, sent by an interceptor, may
// have been applied before, or may be later. A comparison may have failed because of such a copy.
func TestAnAnswerBesideACopyThatMayHaveBeenAppliedLeavesTheOutcomeUnknown(t *testing.T) {
	again := func(ctx context.Context, method string, req, answer any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if invoke(ctx, method, req, answer, conn, opts...) == nil {
			return nil
		}
		return invoke(ctx, method, req, answer, conn, opts...)
	}
	for name, tc := range map[string]struct {
		first error
		want  error
	}{
		"its answer was lost":      {status.Error(codes.Unavailable, "error reading from server: EOF"), ErrUnknown},
		"it was certainly refused": {rpctypes.ErrGRPCNoLeader, nil},
	} {
		t.Run(name, func(t *testing.T) {
			intercepted(t, again, func(t *testing.T, ss *stubs, c *Cluster) {
				ss.each(func(s *stub) {
					s.onTxn = func(_ context.Context, n int64, _ *pb.TxnRequest) (*pb.TxnResponse, error) {
						if n%2 == 1 {
							return nil, tc.first
						}
						return &pb.TxnResponse{Header: s.header()}, nil
					}
				})
				m := member(t, c, "m0:2379")
				_, err := c.Txn(t.Context(), Request{Op: "txn", On: m}, writing())
				require.ErrorIs(t, err, tc.want)
				assert.EqualValues(t, 2, ss.txns())
				assert.Zero(t, m.coolUntil.Load(), "the member has answered")

				_, err = c.Txn(t.Context(), Request{Op: "txn", On: m, Repeat: Always}, writing())
				require.NoError(t, err, "a copy is harmless")
				_, err = c.Txn(t.Context(), Request{Op: "txn", On: m}, reading())
				require.NoError(t, err, "a read is harmless")
				require.NoError(t, c.Do(t.Context(), Request{Op: "grant", On: m}, func(ctx context.Context, m *Member) (*pb.ResponseHeader, error) {
					resp, err := etcdapi.Txn(ctx, m, writing())
					return resp.GetHeader(), err
				}), "what compares nothing says by itself what it did")
			})
		})
	}
}

// An answer without an error means exactly one copy that a server may have seen. Where no copy was seen,
// nobody knows how many there are.
// rule: C1
func TestAnAnswerWithoutACopyThatWasSeenLeavesTheOutcomeUnknown(t *testing.T) {
	for name, tc := range map[string]struct {
		in   grpc.UnaryClientInterceptor
		sent int64
	}{
		"answers by itself": {func(_ context.Context, _ string, _, answer any, conn *grpc.ClientConn, _ grpc.UnaryInvoker, _ ...grpc.CallOption) error {
			answer.(*pb.TxnResponse).Header = &pb.ResponseHeader{ClusterId: 7, Revision: 1 << 40}
			return nil
		}, 0},
		"sends twice with a context of its own": {func(_ context.Context, method string, req, answer any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			_ = invoke(context.Background(), method, req, new(pb.TxnResponse), conn, opts...)
			return invoke(context.Background(), method, req, answer, conn, opts...)
		}, 2},
		"sends without a stream, and then with a context of its own": {func(ctx context.Context, method string, req, answer any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			_ = invoke(ended(ctx), method, req, answer, conn)
			return invoke(context.Background(), method, req, answer, conn, opts...)
		}, 1},
		"answers by itself while a copy is under way": {func(ctx context.Context, method string, req, answer any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			go func() { _ = invoke(ctx, method, req, new(pb.TxnResponse), conn, opts...) }() // ends with ctx
			synctest.Wait()
			answer.(*pb.TxnResponse).Header = &pb.ResponseHeader{ClusterId: 7, Revision: 1 << 40}
			return nil
		}, 1},
		"loses the answer to one, and then sends with a context of its own": {func(ctx context.Context, method string, req, answer any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			short, cancel := context.WithTimeout(ctx, time.Millisecond)
			defer cancel()
			_ = invoke(short, method, req, new(pb.TxnResponse), conn, opts...)
			return invoke(context.Background(), method, req, answer, conn, opts...)
		}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			intercepted(t, tc.in, func(t *testing.T, ss *stubs, c *Cluster) {
				ss.each(func(s *stub) {
					s.onTxn = func(context.Context, int64, *pb.TxnRequest) (*pb.TxnResponse, error) {
						time.Sleep(10 * time.Millisecond)
						return &pb.TxnResponse{Header: s.header()}, nil
					}
				})
				defer time.Sleep(time.Second) // the server's goroutines end
				_, err := c.Txn(t.Context(), Request{Op: "txn"}, writing())
				require.ErrorIs(t, err, errCopies)
				assert.Equal(t, Unknown, OutcomeOf(err))
				assert.Equal(t, tc.sent, ss.txns(), "it is not sent again")

				_, err = c.Txn(t.Context(), Request{Op: "txn", Repeat: Always}, writing())
				require.NoError(t, err, "a copy is harmless")
				_, err = c.Txn(t.Context(), Request{Op: "txn"}, reading())
				require.NoError(t, err, "a read is harmless")
			})
		})
	}
}

// Copies that an interceptor sends at the same time, with a slice of options that has room for more, have evidence
// of their own.
// rule: C1
func TestCopiesThatAreSentAtTheSameTimeHaveTheirOwnEvidence(t *testing.T) {
	var peers []*peer.Peer
	room := make([]grpc.CallOption, 0, 4)
	var invoke grpc.UnaryInvoker
	invoke = func(ctx context.Context, method string, _, _ any, _ *grpc.ClientConn, opts ...grpc.CallOption) error {
		if method == "first" {
			require.NoError(t, witness(ctx, "second", nil, nil, nil, invoke, room...))
		}
		peers = append(peers, opts[0].(grpc.PeerCallOption).PeerAddr)
		return nil
	}
	ctx := &try{Context: t.Context(), login: &login{ctx: t.Context()}}
	require.NoError(t, witness(ctx, "first", nil, nil, nil, invoke, room...))
	require.Len(t, peers, 2)
	assert.NotSame(t, peers[0], peers[1])
}

// Whatever the members answer to the tries of a write that is not repeatable: if it is answered without an
// error, one copy was executed, and all others were refused.
// rule: C1
func TestAWriteThatIsAnsweredWasExecutedInOneCopyOverAllTriesAndMembers(t *testing.T) {
	lost := status.Error(codes.Unavailable, "error reading from server: EOF")
	answers := []error{nil, lost, rpctypes.ErrGRPCNoLeader, rpctypes.ErrGRPCRequestTooManyRequests, rpctypes.ErrGRPCTimeout, rpctypes.ErrGRPCPermissionDenied}
	refuses := func(err error) bool { outcome, _ := classify(err); return outcome == NotApplied }
	for _, a := range answers {
		for _, b := range answers {
			for _, each := range []int{1, 2} { // what an interceptor makes of one
				again := func(ctx context.Context, method string, req, answer any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) (err error) {
					for range each {
						err = invoke(ctx, method, req, answer, conn, opts...)
					}
					return err
				}
				intercepted(t, again, func(t *testing.T, ss *stubs, c *Cluster) {
					var n, executed atomic.Int64
					ss.each(func(s *stub) {
						s.onTxn = func(context.Context, int64, *pb.TxnRequest) (*pb.TxnResponse, error) {
							var err error
							if at := n.Add(1); at <= 2 {
								err = []error{a, b}[at-1]
							}
							if err == nil || !refuses(err) {
								executed.Add(1)
							}
							return &pb.TxnResponse{Header: s.header()}, err
						}
					})
					_, err := c.Txn(t.Context(), Request{Op: "txn"}, writing())
					if err == nil {
						assert.EqualValues(t, 1, executed.Load(), "%v, %v, each %d times", a, b, each)
					} else if OutcomeOf(err) == NotApplied {
						assert.Zero(t, executed.Load(), "%v, %v, each %d times", a, b, each)
					}
				})
			}
		}
	}
}

// rule: C1
func TestWhatAnInterceptorSendsInTheBackgroundIsUnknownAndThenRefused(t *testing.T) {
	var goOn chan struct{}
	var late chan error
	intercepted(t, func(ctx context.Context, method string, req, answer any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, _ ...grpc.CallOption) error {
		go func() { // ends when it is answered
			_ = invoke(context.WithoutCancel(ctx), method, req, new(pb.TxnResponse), conn)
			<-goOn
			late <- invoke(context.WithoutCancel(ctx), method, req, new(pb.TxnResponse), conn)
		}()
		synctest.Wait()
		return rpctypes.ErrGRPCTooManyOps
	}, func(t *testing.T, ss *stubs, c *Cluster) {
		goOn, late = make(chan struct{}), make(chan error, 1)
		ss.each(func(s *stub) {
			s.onTxn = func(context.Context, int64, *pb.TxnRequest) (*pb.TxnResponse, error) {
				time.Sleep(time.Second)
				return nil, rpctypes.ErrGRPCTooManyOps
			}
		})
		_, err := c.Txn(t.Context(), Request{Op: "txn"}, writing())
		require.ErrorIs(t, err, ErrUnknown)
		assert.Equal(t, Unknown, OutcomeOf(err), "it has not ended")
		time.Sleep(2 * time.Second)
		goOn <- struct{}{}
		assert.Equal(t, errTryEnded, <-late)
		assert.EqualValues(t, 1, ss.txns())
	})
}

func TestTheOutcomeOfATryThatOpensAStreamIsUnknown(t *testing.T) {
	bubble(t, 1, func(t *testing.T, ss *stubs, c *Cluster) {
		err := c.Do(t.Context(), Request{Op: "stream"}, func(ctx context.Context, m *Member) (*pb.ResponseHeader, error) {
			_, err := etcdapi.LeaseKeepAlive(ctx, m)
			require.NoError(t, err)
			return nil, rpctypes.ErrGRPCTooManyOps
		})
		require.ErrorIs(t, err, ErrUnknown)
	})
}

func TestGraceEndsShortlyAfterTheCallersContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		because := errors.New("enough")
		ctx, cancel := context.WithCancelCause(context.WithValue(t.Context(), valueKey{}, 7))
		s, stop := WithGrace(ctx, Grace)
		defer stop()
		assert.Equal(t, 7, s.Value(valueKey{}))
		time.Sleep(time.Second)
		cancel(because)
		time.Sleep(Grace - 1)
		synctest.Wait()
		require.NoError(t, s.Err())
		_, ok := s.Deadline()
		assert.False(t, ok)
		time.Sleep(time.Nanosecond)
		<-s.Done()
		require.ErrorIs(t, EndOf(s), because)
		require.ErrorIs(t, EndOf(s), context.Canceled)

		late, stop := WithGrace(ctx, Grace) // of a context that has ended
		defer stop()
		require.NoError(t, late.Err())
		time.Sleep(Grace)
		<-late.Done()

		timed, cancelTimed := context.WithTimeout(t.Context(), time.Second)
		defer cancelTimed()
		s, stop = WithGrace(timed, Grace)
		defer stop()
		<-s.Done()
		require.ErrorIs(t, EndOf(s), context.DeadlineExceeded)
		require.NotErrorIs(t, EndOf(s), context.Canceled)

		endless := context.WithValue(context.Background(), valueKey{}, 7)
		s, stop = WithGrace(endless, Grace)
		defer stop()
		assert.Equal(t, endless, s)
	})
}

func TestWhatIsApartEndsWithTheCallersContextAndSaysTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		because := errors.New("enough")
		ctx, cancel := context.WithCancelCause(context.WithValue(t.Context(), valueKey{}, 7))
		s, leave := Apart(ctx)
		defer leave()
		assert.Nil(t, s.Value(valueKey{}))
		synctest.Wait()
		require.NoError(t, s.Err())
		cancel(because)
		<-s.Done()
		require.ErrorIs(t, EndOf(s), because)
		require.ErrorIs(t, EndOf(s), context.Canceled)

		timed, cancelTimed := context.WithTimeoutCause(t.Context(), time.Second, because)
		defer cancelTimed()
		s, leave = Apart(timed)
		defer leave()
		began := time.Now()
		<-s.Done()
		assert.Equal(t, time.Second, time.Since(began))
		require.ErrorIs(t, EndOf(s), context.DeadlineExceeded)
		require.ErrorIs(t, EndOf(s), because)
		require.NotErrorIs(t, EndOf(s), context.Canceled)

		s, leave = Apart(context.Background())
		leave()
		require.NoError(t, s.Err())
	})
}

func TestTheServerLearnsTheSoonerEnd(t *testing.T) {
	bubble(t, 1, func(t *testing.T, ss *stubs, c *Cluster) {
		ss.get(0).do(func(s *stub) {
			s.onTxn = func(ctx context.Context, _ int64, _ *pb.TxnRequest) (*pb.TxnResponse, error) {
				end, ok := ctx.Deadline()
				assert.True(t, ok)
				within(t, 0, time.Second, time.Until(end))
				return &pb.TxnResponse{Header: s.header(), Succeeded: true}, nil
			}
		})
		timed, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for _, tc := range []struct {
			ctx   context.Context
			bound time.Duration
		}{{timed, time.Minute}, {t.Context(), time.Second}} {
			_, err := c.Txn(tc.ctx, Request{Op: "txn", PerTry: tc.bound}, writing())
			require.NoError(t, err)
		}
	})
}

func TestTheCodeShowsWhatEndedARenewal(t *testing.T) {
	bubble(t, 1, func(t *testing.T, ss *stubs, c *Cluster) {
		ss.get(0).do(func(s *stub) { s.onTxn = silent })
		timed, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		cancelled, end := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, end)
		ends := func(ctx context.Context, after time.Duration, want codes.Code) {
			t.Helper()
			began := time.Now()
			_, err := c.Txn(ctx, Request{Op: "txn"}, writing())
			var e *Error
			require.ErrorAs(t, err, &e)
			assert.Equal(t, want, e.Code)
			assert.Equal(t, after, time.Since(began))
		}
		ends(cancelled, time.Second, codes.Canceled)
		ends(timed, 0, codes.DeadlineExceeded)
		timed, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		ends(timed, time.Second, codes.DeadlineExceeded)
		ends(t.Context(), defaultPerTry, codes.DeadlineExceeded)
		ends(context.Background(), defaultPerTry, codes.DeadlineExceeded)
	})
}

// A time limit of this package is not the end of the caller's context, wherever it passes and whichever
// layer reports it.
func TestABoundThatPassedIsNoEndOfAContext(t *testing.T) {
	hold := func(ctx context.Context, _ string, _, _ any, _ *grpc.ClientConn, _ grpc.UnaryInvoker, _ ...grpc.CallOption) error {
		<-ctx.Done()
		return ctx.Err()
	}
	noEnd := func(t *testing.T, err error) {
		t.Helper()
		require.Error(t, err)
		assert.NotErrorIs(t, err, context.DeadlineExceeded)
		assert.NotErrorIs(t, err, context.Canceled)
	}
	t.Run("an interceptor's words", func(t *testing.T) {
		intercepted(t, hold, func(t *testing.T, ss *stubs, c *Cluster) {
			_, err := c.Txn(t.Context(), Request{Op: "txn", PerTry: time.Second}, writing())
			noEnd(t, err)
			assert.True(t, IsCode(err, codes.DeadlineExceeded))

			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Second/2, cancel)
			_, err = c.Txn(ctx, Request{Op: "txn", PerTry: time.Second}, writing())
			require.ErrorIs(t, err, context.Canceled)
		})
	})
	t.Run("a silent server", func(t *testing.T) {
		bubble(t, 1, func(t *testing.T, ss *stubs, c *Cluster) {
			ss.each(func(s *stub) { s.onTxn = silent })
			_, err := c.Txn(context.Background(), Request{Op: "txn"}, writing())
			noEnd(t, err)
		})
	})
	t.Run("a token that does not come", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ss := newStubs(t, 1)
			g := guard(ss)
			c := ss.connect(ss.asRoot())
			ss.each(func(s *stub) {
				s.onAuth = func(ctx context.Context, _ int64, _ *pb.AuthenticateRequest) (string, error) {
					<-ctx.Done()
					return "", ctx.Err()
				}
			})
			g.revoke()
			for _, total := range []time.Duration{time.Second, time.Minute} {
				_, err := c.Txn(context.Background(), Request{Op: "txn", Total: total}, writing())
				noEnd(t, err)
				assert.Equal(t, NotApplied, OutcomeOf(err))
			}
			_, _, err := c.Outgoing(context.Background(), c.Pick())
			noEnd(t, err)
		})
	})
	t.Run("dial", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ss := newStubs(t, 2)
			ss.hole["m0:2379"] = true
			ss.get(1).do(func(s *stub) {
				s.onStatus = func(ctx context.Context, _ int64) error { <-ctx.Done(); return ctx.Err() }
			})
			_, err := Dial(context.Background(), ss.config())
			noEnd(t, err)
		})
	})
}
