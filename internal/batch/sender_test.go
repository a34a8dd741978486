package batch

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/etcdapi"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/leaks"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/internal/txn"
)

func TestMain(m *testing.M) { leaks.VerifyTestMain(m) }

// fixture is a cluster in a bubble, and a Sender whose writes gather for a millisecond.
type fixture struct {
	*testing.T
	f *etcdfake.Cluster
	c *cluster.Cluster
	s *Sender

	mu   sync.Mutex
	seen []*pb.TxnRequest // the requests that were received
}

const held = time.Millisecond

func inBubble(t *testing.T, o etcdfake.Options, f func(w *fixture), opts ...grpc.DialOption) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &fixture{T: t, f: etcdfake.New(o)}
		t.Cleanup(w.f.Close)
		w.connect(opts...)
		f(w)
	})
}

func (w *fixture) connect(opts ...grpc.DialOption) {
	c, err := cluster.Dial(w.Context(), cluster.Config{Endpoints: w.f.Endpoints(), DialOptions: append([]grpc.DialOption{w.f.DialOption()}, opts...)})
	require.NoError(w, err)
	w.Cleanup(func() { _ = c.Close() })
	synctest.Wait() // every member has been queried
	w.c, w.s = c, New(c)
	w.s.Hold(held, mostParts, nil)
	w.f.Inject(etcdfake.Rule{Method: "Txn", Match: func(q etcdfake.Request) bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.seen = append(w.seen, q.Message.(*pb.TxnRequest))
		return false
	}})
}

// requests is how many parts each request since the last call had, or 0 for a single write.
func (w *fixture) requests() (parts []int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range w.seen {
		n := 0
		for _, op := range t.Success {
			if op.GetRequestTxn() != nil {
				n++
			}
		}
		parts = append(parts, n)
	}
	w.seen = nil
	return parts
}

// result is the outcome of one write.
type result struct {
	resp *pb.TxnResponse
	err  error
	took time.Duration
}

// all sends writes at the same time, and returns the outcome of each.
func (w *fixture) all(ctx context.Context, ws ...Write) []result {
	got := make([]result, len(ws))
	var wg sync.WaitGroup
	for i, x := range ws {
		wg.Go(func() {
			began := time.Now()
			got[i].resp, got[i].err = w.s.Txn(ctx, x)
			got[i].took = time.Since(began)
		})
	}
	wg.Wait()
	return got
}

// put puts a key in a separate queue.
func put(i int) Write {
	queue := fmt.Sprintf("q%d/", i)
	return Write{Op: "enqueue", Kind: Ordered, Queue: queue, Txn: &pb.TxnRequest{
		Compare: []*pb.Compare{txn.CreateIs(queue+"7-1", 0)},
		Success: []*pb.RequestOp{txn.Put(queue+"7-1", nil, 0), txn.LastUnder(queue, 2, 0)},
	}}
}

// del deletes it, and may be repeated.
func del(i int) Write {
	queue := fmt.Sprintf("q%d/", i)
	return Write{Op: "release", Kind: Plain, Queue: queue, Repeat: cluster.Always, Txn: &pb.TxnRequest{Success: []*pb.RequestOp{txn.Delete(queue + "7-1")}}}
}

func puts32() (ws []Write) {
	for i := range mostParts {
		ws = append(ws, put(i))
	}
	return ws
}

// is is a rule for requests in which some key contains key.
func is(key string, r etcdfake.Rule) etcdfake.Rule {
	r.Method = "Txn"
	r.Match = func(q etcdfake.Request) bool { return strings.Contains(q.Message.(*pb.TxnRequest).String(), key) }
	return r
}

// nested is a rule for requests of several parts.
func nested(r etcdfake.Rule) etcdfake.Rule {
	r.Method = "Txn"
	r.Match = func(q etcdfake.Request) bool {
		t := q.Message.(*pb.TxnRequest)
		return len(t.Success) > 0 && t.Success[0].GetRequestTxn() != nil
	}
	return r
}

// rule: G6
func TestEachGetsItsOwnAnswerWithTheHeaderOfAll(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
		w.f.Put("q1/7-1", "there", 0)
		got := w.all(w.Context(), put(0), put(1), put(2))
		assert.Equal(t, []int{3}, w.requests())
		for i, g := range got {
			require.NoError(w, g.err)
			assert.Equal(w, i != 1, g.resp.Succeeded, "the one that was refused is refused alone")
			assert.Equal(w, w.f.Revision(), g.resp.Header.Revision)
			assert.NotZero(w, g.resp.Header.MemberId)
		}
		assert.Equal(w, w.f.Revision(), txn.PutRevision(got[0].resp, 0))
		assert.Equal(w, txn.PutRevision(got[0].resp, 0), txn.PutRevision(got[2].resp, 0), "keys of two queues are made at one revision")
		w.all(w.Context(), del(0))
		assert.Equal(w, []int{0}, w.requests(), "one goes as it is")
	})
}

// Rule G2, with writes that come at the same time.
// rule: G2
func TestTwoOrderedWritesOfAQueueAreOfTwoRequests(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(w *fixture) {
		other := put(0)
		other.Txn.Success[0] = txn.Put("q0/8-1", nil, 0)
		got := w.all(w.Context(), put(0), other, put(1))
		assert.ElementsMatch(w, []int{2, 0}, w.requests())
		assert.NotEqual(w, txn.PutRevision(got[0].resp, 0), txn.PutRevision(got[1].resp, 0))
		w.all(w.Context(), del(0), del(0), del(1))
		assert.Equal(w, []int{3}, w.requests())
	})
}

// Rule G2 is checked where the request is made, whatever the Kind of its parts claims.
// rule: G2
func TestWhatWouldBreakRuleG2GoesAlone(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(w *fixture) {
		first, second := put(0), put(0)
		second.Txn.Success[0] = txn.Put("q0/8-1", nil, 0)
		second.Queue = "another/"
		got := w.all(w.Context(), first, second)
		assert.Equal(w, []int{0, 0}, w.requests())
		assert.NoError(w, errors.Join(got[0].err, got[1].err))
	})
}

// Rule G6: what a member does not accept is sent to another one, together.
// rule: G6
func TestWhatAMemberDoesNotTakeGoesElsewhereTogether(t *testing.T) {
	for _, err := range []error{rpctypes.ErrGRPCNoLeader, status.Error(codes.Unknown, "raft proposal dropped"), rpctypes.ErrGRPCRequestTooManyRequests} {
		inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
			w.f.Inject(nested(etcdfake.Rule{Lose: true, Err: err, Times: 2}))
			for _, g := range w.all(w.Context(), puts32()...) {
				require.NoError(w, g.err)
				assert.True(w, g.resp.Succeeded)
			}
			assert.Equal(w, []int{32, 32, 32}, w.requests())
		})
	}
}

// Rules G6, G9: the refusal of a write concerns only that write, which is sent alone for a while.
// rule: G6, G9
func TestEachGetsItsOwnReasonWhereOneIsRefused(t *testing.T) {
	for name, refuse := range map[string]func(w *fixture, x *Write) (is func(error) bool){
		"the lease of one is gone": func(w *fixture, x *Write) func(error) bool {
			x.Txn.Success[0] = txn.Put("q1/99-1", nil, 99)
			return cluster.IsLeaseNotFound
		},
		"one name is forbidden": func(w *fixture, x *Write) func(error) bool {
			w.f.Inject(is("q1/", etcdfake.Rule{Lose: true, Err: rpctypes.ErrGRPCPermissionDenied}))
			return cluster.IsPermissionDenied
		},
		"one is too large": func(w *fixture, x *Write) func(error) bool {
			w.f.Inject(is("q1/", etcdfake.Rule{Lose: true, Err: rpctypes.ErrGRPCRequestTooLarge}))
			return cluster.IsTooLarge
		},
		"one has too many operations": func(w *fixture, x *Write) func(error) bool {
			w.f.Inject(is("q1/", etcdfake.Rule{Lose: true, Err: rpctypes.ErrGRPCTooManyOps}))
			return cluster.IsTooManyOps
		},
		"one is malformed": func(w *fixture, x *Write) func(error) bool {
			x.Txn.Success = append(x.Txn.Success, txn.Put("q1/7-1", nil, 0))
			return func(err error) bool { return strings.Contains(err.Error(), "duplicate key") }
		},
	} {
		for _, n := range []int{2, 32} {
			t.Run(fmt.Sprint(name, ", of ", n), func(t *testing.T) {
				inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
					ws := puts32()[:n]
					why := refuse(w, &ws[1])
					for i, g := range w.all(w.Context(), ws...) {
						if i != 1 {
							require.NoError(w, g.err)
							require.True(w, g.resp.Succeeded)
							continue
						}
						require.Error(w, g.err)
						assert.True(w, why(g.err), "%v", g.err)
						assert.Equal(w, cluster.NotApplied, cluster.OutcomeOf(g.err))
						assert.ErrorContains(w, g.err, "enqueue at")
					}
					assert.Equal(w, 1+n, len(w.requests()), "each once more, alone")
					if n == 2 || name != "the lease of one is gone" && name != "one name is forbidden" {
						return
					}
					for range 3 {
						got := w.all(w.Context(), ws...)
						assert.ElementsMatch(w, []int{31, 0}, w.requests())
						assert.True(w, why(got[1].err), "%v", got[1].err)
					}
				})
			})
		}
	}
}

// Rule G5.
// rule: G5
func TestAServersBoundsAreKeptOnceTheyAreKnown(t *testing.T) {
	for name, maxOps := range map[string]int{"operations": 12, "bytes": 0} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, etcdfake.Options{Members: 3, MaxTxnOps: maxOps}, func(w *fixture) {
				if name == "bytes" {
					w.f.Inject(etcdfake.Rule{Method: "Txn", Lose: true, Err: rpctypes.ErrGRPCRequestTooLarge,
						Match: func(q etcdfake.Request) bool { return etcdapi.Size(q.Message) > 10*etcdapi.Size(put(10).Txn) }})
				}
				var writes []Write // equally long, so that their order does not matter
				for i := range mostParts {
					writes = append(writes, put(10+i))
				}
				for range 4 {
					for _, g := range w.all(w.Context(), writes...) {
						require.NoError(w, g.err)
					}
					for i := range mostParts {
						require.NoError(w, w.all(w.Context(), del(10+i))[0].err)
					}
				}
				w.requests()
				w.all(w.Context(), writes...)
				total := 0
				for _, n := range w.requests() {
					assert.LessOrEqual(w, n, 10)
					assert.Greater(w, n, 1)
					total += n
				}
				assert.Equal(w, 32, total)
			})
		})
	}
}

// Rule G6: an unknown outcome is unknown for each write, and those that may be executed twice are sent
// again, together.
// An enqueue that is answered without an error was executed once, and no copy of it comes later, whatever
// became of the requests that it shared and of what it shared them with.
// rule: G6
func TestAnEnqueueThatIsAnsweredWasExecutedOnceOverAllTheRequestsThatItShared(t *testing.T) {
	free := func(i int) Write { // it compares nothing, so that each copy that is executed counts
		x := put(i)
		x.Txn.Compare = nil
		return x
	}
	leaseless := free(9)
	leaseless.Txn.Success[0] = txn.Put("q9/7-1", nil, 99)
	for name, rule := range map[string]etcdfake.Rule{
		"nothing happens":         {Times: -1},
		"its answer is lost":      {Err: rpctypes.ErrGRPCTimeout, Times: 1},
		"it comes late":           {Late: time.Second, Err: rpctypes.ErrGRPCTimeout, Times: 1},
		"a member has no leader":  {Lose: true, Err: rpctypes.ErrGRPCNoLeader, Times: 2},
		"it is too large":         {Lose: true, Err: rpctypes.ErrGRPCRequestTooLarge, Times: 1},
		"it has too many parts":   {Lose: true, Err: rpctypes.ErrGRPCTooManyOps, Times: 1},
		"the disk is full for it": {Lose: true, Err: rpctypes.ErrGRPCNoSpace, Times: 1},
	} {
		for others, ws := range map[string][]Write{"an enqueue": {free(0), free(1)}, "one that is refused": {free(0), leaseless}, "a release": {free(0), del(1)}} {
			t.Run(name+", beside "+others, func(t *testing.T) {
				inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
					if rule.Times > 0 {
						w.f.Inject(nested(rule))
					}
					got := w.all(w.Context(), ws...)[0]
					time.Sleep(2 * time.Second)
					executed := int64(0)
					if kv := w.f.Get("q0/7-1"); kv != nil {
						executed = kv.Version
					}
					switch {
					case got.err == nil:
						assert.EqualValues(w, 1, executed)
					case cluster.OutcomeOf(got.err) == cluster.NotApplied:
						assert.Zero(w, executed)
					default:
						assert.LessOrEqual(w, executed, int64(1))
					}
				})
			})
		}
	}
}

// rule: G6
func TestALostAnswerIsEachOnesAndNoRequestIsSentTwice(t *testing.T) {
	for name, rule := range map[string]etcdfake.Rule{
		"applied":        {Err: rpctypes.ErrGRPCTimeout, Times: 1},
		"lost":           {Lose: true, Err: rpctypes.ErrGRPCTimeout, Times: 1},
		"leader changed": {Lose: true, Err: rpctypes.ErrGRPCLeaderChanged, Times: 1},
		"silence":        {Hang: true, Times: 1},
		"gone":           {Err: status.Error(codes.Unavailable, "gone"), Times: 1},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
				w.f.Inject(nested(rule))
				got := w.all(w.Context(), put(0), put(1), del(2), del(3))
				for i, g := range got {
					if i >= 2 {
						require.NoError(w, g.err)
						continue
					}
					require.Error(w, g.err)
					assert.Equal(w, cluster.Unknown, cluster.OutcomeOf(g.err))
					assert.NotErrorIs(w, g.err, context.DeadlineExceeded, "no bound is the caller's")
				}
				assert.Equal(w, []int{4, 2}, w.requests())
			})
		})
	}
	t.Run("where all may be done twice", func(t *testing.T) {
		inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
			w.f.Inject(nested(etcdfake.Rule{Err: rpctypes.ErrGRPCTimeout, Times: 2}))
			for _, g := range w.all(w.Context(), del(0), del(1)) {
				require.NoError(w, g.err)
			}
			assert.Equal(w, []int{2, 2, 2}, w.requests())
		})
	})
	t.Run("where every answer to several is lost", func(t *testing.T) {
		inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
			w.f.Inject(nested(etcdfake.Rule{Lose: true, Err: status.Error(codes.DataLoss, "x")}))
			got := w.all(w.Context(), put(0), del(1))
			assert.Error(w, got[0].err)
			assert.NoError(w, got[1].err, "it goes alone in the end")
		})
	})
}

// Rule G10.
// rule: G10
func TestReleasesBesideEnqueuesWorkOnAFullDisk(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
		w.f.SetNoSpace(true)
		for range 3 {
			var ws []Write
			for i := range 16 {
				ws = append(ws, put(i), del(i+100))
			}
			for i, g := range w.all(w.Context(), ws...) {
				if i%2 == 1 {
					require.NoError(w, g.err)
				} else {
					require.True(w, cluster.IsNoSpace(g.err), "%v", g.err)
				}
			}
		}
		w.requests()
		w.all(w.Context(), del(1), del(2), del(3))
		assert.Equal(w, []int{3}, w.requests(), "deletions travel together")
		w.f.SetNoSpace(false)
		w.all(w.Context(), put(1), put(2), del(3))
		assert.NotContains(w, w.requests(), 3)
		w.all(w.Context(), put(1), put(2), del(3))
		assert.Equal(w, []int{3}, w.requests(), "a put has succeeded")
	})
}

// Rule G11.
// rule: G11
func TestWritesTravelTogetherWhereAllMembersTakeThem(t *testing.T) {
	for _, x := range []struct {
		versions [3]string
		together bool
	}{
		{[3]string{"3.7.3", "3.7.3", "3.7.0"}, true},
		{[3]string{"3.5.28", "3.5.28", "3.5.28"}, true},
		{[3]string{"3.6.9", "3.6.10", "3.6.9"}, true},
		{[3]string{"3.7.3", "3.6.9", "3.7.3"}, false},
		{[3]string{"3.5.28", "3.5.27", "3.5.28"}, false},
		{[3]string{"3.6.9", "3.6.9", "3.6.8"}, false},
		{[3]string{"3.7.0-rc.0", "3.7.0-rc.0", "3.7.0-rc.0"}, false},
		{[3]string{"3.7.3", "3.7.3", "master"}, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := &fixture{T: t, f: etcdfake.New(etcdfake.Options{Members: 3})}
			t.Cleanup(w.f.Close)
			for i, v := range x.versions {
				w.f.Member(i).SetVersion(v)
			}
			w.connect()
			w.all(w.Context(), put(0), put(1))
			assert.Equal(t, x.together, len(w.requests()) == 1, x.versions)
		})
	}
	t.Run("and none that has not said so", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := &fixture{T: t, f: etcdfake.New(etcdfake.Options{Members: 3})}
			t.Cleanup(w.f.Close)
			w.f.Member(2).Cut()
			w.connect()
			w.all(w.Context(), put(0), put(1))
			assert.Equal(t, []int{0, 0}, w.requests())
			w.f.Member(2).Heal()
			time.Sleep(time.Minute)
			w.all(w.Context(), del(0), del(1))
			assert.Equal(t, []int{2}, w.requests())
		})
	})
}

// Rule G7: a caller whose context ends returns at once, before its write is sent and after, and the
// others continue.
// rule: G7
func TestACallerWhoseContextEndsReturnsAtOnceAndTheOthersGoOn(t *testing.T) {
	for _, gone := range []int{1, 5, 8} { // of 8
		for name, after := range map[string]time.Duration{"before it is sent": held / 2, "after": held + 5*time.Millisecond} {
			t.Run(fmt.Sprint(gone, " ", name), func(t *testing.T) {
				inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
					w.f.Inject(is("q", etcdfake.Rule{HoldAnswer: 100 * time.Millisecond}))
					why := errors.New("why")
					ctx, cancel := context.WithCancelCause(w.Context())
					time.AfterFunc(after, func() { cancel(why) })
					var wg sync.WaitGroup
					for i := range 8 {
						wg.Go(func() {
							began, c := time.Now(), w.Context()
							if i < gone {
								c = ctx
							}
							resp, err := w.s.Txn(c, put(i))
							if i >= gone {
								if assert.NoError(w, err) {
									assert.True(w, resp.Succeeded)
								}
								return
							}
							assert.Equal(w, after, time.Since(began))
							assert.ErrorIs(w, err, why)
							assert.ErrorIs(w, err, context.Canceled)
							assert.Equal(w, after < held, cluster.OutcomeOf(err) == cluster.NotApplied)
						})
					}
					wg.Wait()
					time.Sleep(time.Second)
					for i := range 8 {
						assert.Equal(w, i >= gone || after > held, w.f.Get(fmt.Sprintf("q%d/7-1", i)) != nil, i)
					}
				})
			})
		}
	}
}

// Rule G8.
// rule: G8
func TestASessionThatEndsTakesOutWhatWaits(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
		over := make(chan struct{})
		time.AfterFunc(held/2, func() { close(over) })
		ended := put(0)
		ended.Ended = over
		got := w.all(w.Context(), ended, put(1), put(2))
		assert.Equal(w, cluster.NotApplied, cluster.OutcomeOf(got[0].err))
		assert.Equal(w, held/2, got[0].took)
		assert.NoError(w, errors.Join(got[1].err, got[2].err))
		assert.Equal(w, []int{2}, w.requests())
		assert.Nil(w, w.f.Get("q0/7-1"))

		over = make(chan struct{})
		time.AfterFunc(2*held, func() { close(over) })
		w.f.Inject(is("q", etcdfake.Rule{HoldAnswer: 3 * held}))
		ended = del(0)
		ended.Ended = over
		got = w.all(w.Context(), ended, del(1))
		assert.NoError(w, got[0].err, "what has left goes on")
	})
}

// Rule G7: a request has no caller's context, values or deadline.
// rule: G7
func TestNothingOfACallersContextIsInARequestOfSeveral(t *testing.T) {
	type key struct{}
	alone, several := 0, 0
	watch := func(ctx context.Context, method string, req, answer any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if r, ok := req.(*pb.TxnRequest); ok {
			if r.Success[0].GetRequestTxn() != nil {
				several++
				assert.Nil(t, ctx.Value(key{}))
				end, _ := ctx.Deadline()
				assert.Equal(t, 3*time.Second, time.Until(end), "that of any request")
			} else {
				alone++
				assert.Equal(t, "mine", ctx.Value(key{}))
			}
		}
		return invoke(ctx, method, req, answer, conn, opts...)
	}
	inBubble(t, etcdfake.Options{}, func(w *fixture) {
		ctx, cancel := context.WithTimeout(context.WithValue(w.Context(), key{}, "mine"), time.Second)
		defer cancel()
		w.all(ctx, put(0), put(1))
		w.all(ctx, put(3))
		assert.Equal(w, 1, several)
		assert.Equal(w, 1, alone)
	}, grpc.WithChainUnaryInterceptor(watch))
}

// Rule G4: while a member is silent, no writes hang but those that were sent to it before its silence
// was noticed.
// rule: G4
func TestAMemberThatSaysNothingIsPassedOver(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
		w.s.Hold(0, mostParts, nil)
		w.f.Member(1).BlackHole()
		late, n := 0, 0
		var wg sync.WaitGroup
		var mu sync.Mutex
		for i := range 1000 {
			wg.Go(func() {
				began := time.Now()
				_, err := w.s.Txn(w.Context(), del(i))
				mu.Lock()
				defer mu.Unlock()
				n++
				if assert.NoError(w, err); time.Since(began) > 500*time.Millisecond {
					late++
				}
			})
			time.Sleep(2500 * time.Microsecond)
		}
		wg.Wait()
		assert.Equal(w, 1000, n)
		assert.LessOrEqual(w, late, 3*mostParts)
	})
}

// Two requests pause between their tries, as many as may be in flight.
// rule: G4
func TestNobodyWaitsForARequestThatPausesBetweenItsTries(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(w *fixture) {
		w.s.Hold(0, mostParts, nil)
		for i := range leastInflight {
			w.f.Inject(is(fmt.Sprintf("q%d/", i), etcdfake.Rule{Lose: true, Err: rpctypes.ErrGRPCRequestTooManyRequests}))
		}
		ctx, cancel := context.WithCancel(w.Context())
		var refused sync.WaitGroup
		for i := range leastInflight {
			refused.Go(func() { _, _ = w.s.Txn(ctx, del(i)) })
		}
		time.Sleep(10 * time.Millisecond)
		got := w.all(w.Context(), put(leastInflight))[0]
		require.NoError(w, got.err)
		assert.Zero(w, got.took)
		cancel()
		refused.Wait()
	})
}

// An interceptor's panic, from which its caller recovers, leaves no request in flight.
// rule: G4
func TestARequestWhoseInterceptorPanicsIsNotInFlight(t *testing.T) {
	var panics atomic.Bool
	inBubble(t, etcdfake.Options{}, func(w *fixture) {
		w.s.Hold(0, mostParts, nil)
		panics.Store(true)
		assert.Panics(w, func() { _, _ = w.s.Txn(w.Context(), del(0)) })
		panics.Store(false)
		assert.Zero(w, w.s.m.inflight.busy)
		_, err := w.s.Txn(w.Context(), del(0))
		require.NoError(w, err)
		assert.Len(w, w.s.m.inflight.all, 1, "the ticket was given back")
	}, grpc.WithUnaryInterceptor(func(ctx context.Context, method string, req, answer any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if panics.Load() && method == etcdapi.TxnMethod {
			panic("of an interceptor")
		}
		return invoke(ctx, method, req, answer, conn, opts...)
	}))
}

// Requests under way end when their client is closed.
func TestClosingEndsWhatIsUnderWayAndWhatWaits(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
		w.f.BlackHole()
		time.AfterFunc(time.Second, func() { _ = w.c.Close() })
		for _, g := range w.all(context.Background(), puts32()...) {
			assert.ErrorIs(w, g.err, cluster.ErrClosed)
			assert.Equal(w, time.Second, g.took)
		}
		for _, g := range w.all(context.Background(), put(1), put(2)) {
			assert.ErrorIs(w, g.err, cluster.ErrClosed)
			assert.Equal(w, cluster.NotApplied, cluster.OutcomeOf(g.err))
		}
	})
}

// cancel puts a cancel key on the lease of a session, and may be repeated.
func cancel(i int, lease int64) Write {
	return Write{Op: "settle enqueue", Kind: Plain, Queue: fmt.Sprintf("q%d/", i), Repeat: cluster.Always, Txn: &pb.TxnRequest{
		Success: []*pb.RequestOp{txn.Put(fmt.Sprintf("//pawl/%x/1", i+1), nil, lease), txn.Stat(fmt.Sprintf("q%d/7-1", i))},
	}}
}

// Rules G6, N4: if a request is sent again after a lost answer, and then refused because of one part,
// the other parts are not refused. Each gets its own reason.
func TestEachGetsItsOwnReasonAfterALostAnswerToo(t *testing.T) {
	for name, refuse := range map[string]func(w *fixture) (is func(error) bool){
		"the lease of one is gone": func(w *fixture) func(error) bool { return cluster.IsLeaseNotFound },
		"one name is forbidden": func(w *fixture) func(error) bool {
			w.f.Inject(is("q1/", etcdfake.Rule{Lose: true, Err: rpctypes.ErrGRPCPermissionDenied}))
			return cluster.IsPermissionDenied
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
				w.f.Inject(nested(etcdfake.Rule{Lose: true, Err: rpctypes.ErrGRPCTimeout, Times: 1}))
				why, gone := refuse(w), int64(0)
				if name == "the lease of one is gone" {
					gone = 99
				}
				got := w.all(w.Context(), cancel(0, 0), cancel(1, gone), del(2))
				assert.NoError(w, got[0].err)
				assert.NoError(w, got[2].err)
				require.Error(w, got[1].err)
				assert.True(w, why(got[1].err), "%v", got[1].err)
				assert.Equal(w, cluster.Unknown, cluster.OutcomeOf(got[1].err), "the first copy may yet be applied")
			})
		})
	}
}

// Rule G6: if an interceptor sends again what got no answer, and is refused the second time, the
// outcome is unknown for each, and none gets another's reason.
func TestARefusalAfterAnInterceptorsLostCopyIsNobodyElses(t *testing.T) {
	twice := grpc.WithUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if err := invoke(ctx, method, req, reply, cc, opts...); status.Code(err) != codes.Unavailable {
			return err
		}
		return invoke(ctx, method, req, reply, cc, opts...)
	})
	inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
		w.f.Inject(nested(etcdfake.Rule{Lose: true, Err: rpctypes.ErrGRPCTimeout, Times: 1}))
		bad := put(1)
		bad.Txn.Success[0] = txn.Put("q1/99-1", nil, 99)
		for _, g := range w.all(w.Context(), put(0), bad) {
			require.Error(w, g.err)
			assert.Equal(w, cluster.Unknown, cluster.OutcomeOf(g.err))
			assert.False(w, cluster.IsLeaseNotFound(g.err), "%v", g.err)
			assert.NotContains(w, g.err.Error(), cluster.Shared, "the others' names")
		}
	}, twice)
}

// Rule G7: a write that was sent, and waits to be sent once more, is not "not applied".
func TestWhatWaitsToBeSentAgainIsUnknownToWhoeverStopsWaiting(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
		w.s.Hold(time.Second, mostParts, nil)
		w.f.Inject(nested(etcdfake.Rule{Err: rpctypes.ErrGRPCTimeout, Times: 1}))
		ctx, stop := context.WithTimeout(w.Context(), 1500*time.Millisecond)
		defer stop()
		got := w.all(ctx, put(0), del(1))
		assert.Equal(w, []int{2}, w.requests())
		require.ErrorIs(w, got[1].err, context.DeadlineExceeded)
		assert.Equal(w, cluster.Unknown, cluster.OutcomeOf(got[1].err), "it was sent once: %v", got[1].err)
	})
}

// Rule G4: the timer fires when a try may be late, even if round trips have become shorter since it was
// set.
func TestTheTimerIsBroughtForward(t *testing.T) {
	s := &Sender{m: newMachine()}
	now := time.Now()
	s.m.hold = 2 * time.Hour
	s.m.gather.add(newPart(Write{Txn: &pb.TxnRequest{}}, 0, false), 2, now)
	s.arm(now)
	defer s.timer.Stop()
	for _, at := range []struct{ wake, armed time.Duration }{{2 * time.Hour, 2 * time.Hour}, {time.Hour, time.Hour}, {3 * time.Hour, time.Hour}} {
		s.m.hold = at.wake
		s.arm(now)
		assert.Equal(t, now.Add(at.armed), s.armed)
	}
}
