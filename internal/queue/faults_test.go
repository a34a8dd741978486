package queue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/racedetector"
)

// A request is one of those that the engine sends, known by its parts.
type request func(*pb.TxnRequest) bool

func op(ops []*pb.RequestOp, i int) *pb.RequestOp {
	if i < len(ops) {
		return ops[i]
	}
	return nil
}

// inQueue reports whether the key is in one of the tests' queues.
func inQueue(key []byte) bool { return strings.HasPrefix(string(key), "name") }

func isEnqueue(t *pb.TxnRequest) bool {
	return inQueue(op(t.Success, 0).GetRequestPut().GetKey()) && !isTake(t)
}

// isTake takes a slot of a semaphore.
func isTake(t *pb.TxnRequest) bool {
	return strings.HasPrefix(string(op(t.Success, 0).GetRequestPut().GetKey()), "name/s")
}

func isSettle(t *pb.TxnRequest) bool {
	return len(t.Success) >= 2 && len(t.Compare) == 0 && op(t.Success, 0).GetRequestPut() != nil && inQueue(op(t.Success, 1).GetRequestRange().GetKey())
}

// below is how many of the first operations read what was created before a key.
func below(t *pb.TxnRequest) (n int) {
	for op(t.Success, n).GetRequestRange().GetMaxCreateRevision() > 0 {
		n++
	}
	return n
}

func isQuery(t *pb.TxnRequest) bool {
	return below(t) > 0 && len(t.Success) == below(t) || isSlotQuery(t)
}

// isSlotQuery is the query of one in a turnstile.
func isSlotQuery(t *pb.TxnRequest) bool {
	return below(t) == 1 && strings.HasPrefix(string(op(t.Success, 1).GetRequestRange().GetKey()), "name/s")
}

func isResume(t *pb.TxnRequest) bool { return below(t) > 0 && len(t.Success) == below(t)+1 }

func isPeek(t *pb.TxnRequest) bool {
	r := op(t.Success, 0).GetRequestRange()
	return len(t.Compare) == 0 && r.GetSortOrder() == pb.RangeRequest_ASCEND && r.GetLimit() == 1
}

func isRelease(t *pb.TxnRequest) bool {
	if nested := op(t.Success, 0).GetRequestTxn(); nested != nil { // of a set
		return isRelease(nested)
	}
	others := len(t.Success) - 1
	if keys.OfSessions(string(op(t.Success, 1).GetRequestDeleteRange().GetKey())) { // the cancel key of a permit
		others--
	}
	return inQueue(op(t.Success, 0).GetRequestDeleteRange().GetKey()) && others == 0 && (len(t.Failure) == 0 || readsOwn(t))
}

// readsOwn reports whether t, a release, reads its own key if it is refused.
func readsOwn(t *pb.TxnRequest) bool {
	return len(t.Failure) == 1 && inQueue(op(t.Failure, 0).GetRequestRange().GetKey())
}

// isWhy is the read after an enqueue that was refused.
func isWhy(t *pb.TxnRequest) bool {
	return len(t.Compare) == 0 && len(t.Success) >= 4 && op(t.Success, 3).GetRequestRange().GetSortOrder() == pb.RangeRequest_ASCEND && !isSettle(t)
}

// isExplain is the read after a release that did not find its key.
func isExplain(t *pb.TxnRequest) bool {
	r := op(t.Success, 1).GetRequestRange()
	return len(t.Compare) == 0 && op(t.Success, 0).GetRequestRange() != nil && inQueue(r.GetKey()) && r.GetRangeEnd() == nil && !isWhy(t)
}

func isUndo(t *pb.TxnRequest) bool {
	return inQueue(op(t.Success, 0).GetRequestDeleteRange().GetKey()) && len(t.Failure) == 1 && !readsOwn(t) ||
		inQueue(op(t.Success, 1).GetRequestDeleteRange().GetKey()) && !isTake(t)
}

// is makes a request what a rule matches, by itself or as a part of one.
func (r request) is(q etcdfake.Request) bool { return r.of(q) != nil }

// of is the one in q that is r; nil: there is none.
func (r request) of(q etcdfake.Request) *pb.TxnRequest {
	t, _ := q.Message.(*pb.TxnRequest)
	if t == nil || r(t) {
		return t
	}
	for _, op := range t.Success {
		if part := op.GetRequestTxn(); part != nil && r(part) {
			return part
		}
	}
	return nil
}

func (r request) rule(rule etcdfake.Rule) etcdfake.Rule {
	rule.Method, rule.Match = "Txn", r.is
	return rule
}

// fault is one way in which a request fails.
type fault struct {
	name  string
	rule  etcdfake.Rule
	final bool // nobody would answer otherwise, so a caller may hear of it
}

// own reports whether it is about what the write holds: nobody whose write was beside it hears
// of it.
func (fa fault) own() bool {
	err := fa.rule.Err
	return cluster.IsPermissionDenied(err) || cluster.IsTooLarge(err) || cluster.IsTooManyOps(err)
}

// heard reports whether err is fa, which has ended an acquisition. Nothing is left of it then.
func (w *fixture) heard(err error, fa fault) bool {
	if err == nil || !fa.final {
		return false
	}
	assert.ErrorContains(w, err, status.Convert(fa.rule.Err).Message())
	w.clear()
	return true
}

const injected = "injected"

// faults are all ways: it is lost, its answer is, with each code or with
// silence; it is late; it is applied twice; it is refused. (A lease that is gone ends a session:
// TestWhatOneIsRefusedForConcernsNobodyElse.)
func faults() []fault {
	fs := []fault{
		{"request lost, silence", etcdfake.Rule{Lose: true}, false},
		{"answer lost, silence", etcdfake.Rule{Hang: true}, false},
		{"late, and silence", etcdfake.Rule{Late: 700 * time.Millisecond}, false},
		{"very late, and silence", etcdfake.Rule{Late: 3500 * time.Millisecond}, false},
		{"late, and a timeout is answered", etcdfake.Rule{Late: 100 * time.Millisecond, Err: rpctypes.ErrGRPCTimeout}, false},
		{"very late, and a timeout is answered", etcdfake.Rule{Late: time.Second, Err: rpctypes.ErrGRPCTimeoutDueToLeaderFail}, false},
		{"late, and unavailable is answered", etcdfake.Rule{Late: 5 * time.Millisecond, Err: status.Error(codes.Unavailable, "gone")}, false},
		{"twice at once", etcdfake.Rule{Again: time.Nanosecond}, false},
		{"twice", etcdfake.Rule{Again: 300 * time.Millisecond}, false},
		{"twice, and the answer lost", etcdfake.Rule{Again: 200 * time.Millisecond, Err: status.Error(codes.Unavailable, "gone")}, false},
		{"delayed", etcdfake.Rule{Delay: 800 * time.Millisecond}, false},
		{"answer delayed", etcdfake.Rule{HoldAnswer: 800 * time.Millisecond}, false},
		{"no leader", etcdfake.Rule{Lose: true, Err: rpctypes.ErrGRPCNoLeader}, false},
		{"too many requests", etcdfake.Rule{Lose: true, Err: rpctypes.ErrGRPCRequestTooManyRequests}, false},
		{"leader changed", etcdfake.Rule{Lose: true, Err: rpctypes.ErrGRPCLeaderChanged}, false},
		{"corrupt", etcdfake.Rule{Lose: true, Err: rpctypes.ErrGRPCCorrupt}, true},
		{"token refused", etcdfake.Rule{Lose: true, Err: rpctypes.ErrGRPCInvalidAuthToken}, true},
		{"no space", etcdfake.Rule{Lose: true, Err: rpctypes.ErrGRPCNoSpace}, true},
		{"no space, though applied", etcdfake.Rule{Err: rpctypes.ErrGRPCNoSpace}, true},
		{"forbidden", etcdfake.Rule{Lose: true, Err: rpctypes.ErrGRPCPermissionDenied}, true},
		{"too large", etcdfake.Rule{Lose: true, Err: rpctypes.ErrGRPCRequestTooLarge}, true},
		{"too many operations", etcdfake.Rule{Lose: true, Err: rpctypes.ErrGRPCTooManyOps}, true},
	}
	for code := codes.Canceled; code <= codes.Unauthenticated; code++ {
		err := status.Error(code, injected)
		fs = append(fs, fault{"request lost, " + code.String(), etcdfake.Rule{Lose: true, Err: err}, false})
		if code != codes.Unimplemented { // which gRPC says of what it did not even look at
			fs = append(fs, fault{"answer lost, " + code.String(), etcdfake.Rule{Err: err}, false})
		}
	}
	return fs
}

// eachFault runs f in a fixture for each fault: one that happens once and, plain
// codes apart, one that happens thrice. What f does goes by itself, beside one other, and
// as one of 32 writes.
func eachFault(t *testing.T, f func(w *fixture, fa fault)) {
	for _, company := range []int{1, 2, 32} {
		all, met := 0, 0
		for _, times := range []int{1, 3} {
			for _, fa := range faults() {
				plain := status.Convert(fa.rule.Err).Message() == injected
				if company > 2 && (testing.Short() || racedetector.On) || company > 1 && plain && racedetector.On || times > 1 && (company > 2 || plain) {
					continue
				}
				fa.rule.Times = times
				name := fa.name + map[int]string{1: "", 3: ", thrice"}[times] + map[int]string{1: "", 2: ", of two", 32: ", of many"}[company]
				if !racedetector.Samples(t.Name() + name) {
					continue
				}
				t.Run(name, func(t *testing.T) {
					inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
						w.others = newOthers(w, company-1, fa)
						f(w, fa)
						together := w.others.end()
						if fa.final {
							return // perhaps nothing was written after it
						}
						all++
						if together {
							met++
						}
					})
				})
			}
		}
		if racedetector.Short() {
			continue // a few cells say nothing of most
		}
		assert.Greater(t, 2*met+1, all, "a member that failed is asked for its version before anything travels together again; most did")
	}
}

// eachFaultInEachMode is eachFault for an exclusive and for a shared acquisition, which the
// fixture's queue says, for one of several names, and for one of a semaphore's only slot.
func eachFaultInEachMode(t *testing.T, f func(w *fixture, fa fault)) {
	eachMode(t, func(t *testing.T, set func(w *fixture)) {
		eachFault(t, func(w *fixture, fa fault) {
			set(w)
			f(w, fa)
		})
	})
}

// eachMode runs f for each of these modes, which set gives to a fixture's queue.
func eachMode(t *testing.T, f func(t *testing.T, set func(w *fixture))) {
	for name, set := range map[string]func(w *fixture){
		"exclusive": func(*fixture) {},
		"shared":    func(w *fixture) { w.shared = true },
		"set":       func(w *fixture) { w.set = []string{"name2", "name3"} },
		"permit":    func(w *fixture) { w.limit = 1 },
	} {
		t.Run(name, func(t *testing.T) { f(t, set) })
	}
}

// A4, A5, A6: however an enqueue fails, the lock is acquired once, and its release leaves no
// trace.
func TestEveryFailureOfAnEnqueueEndsInOneHolder(t *testing.T) {
	eachFaultInEachMode(t, func(w *fixture, fa fault) {
		s := w.session()
		hit := w.f.Inject(request(isEnqueue).rule(fa.rule))
		c, err := w.take(w.Context(), s, Request{})
		assert.NotZero(w, hit.Hits())
		w.f.LiftAll()
		if w.heard(err, fa) {
			return
		}
		require.NoError(w, err)
		time.Sleep(4 * time.Second) // what is late arrives
		w.held(c)
		assert.Len(w, w.keys(), 1)
		w.release(c)
		w.clear()
	})
}

// K1, A5: an enqueue that was applied, though the answer said that it was not, is found by its
// second copy: the token is the key's, not that of the answer.
func TestTheTokenOfAnEnqueueFoundAppliedIsItsKeys(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
		s := w.session()
		w.f.Inject(request(isEnqueue).rule(etcdfake.Rule{Times: 1, Err: rpctypes.ErrGRPCNoLeader}))
		copies := 0
		w.f.Inject(etcdfake.Rule{Method: "Txn", Match: func(q etcdfake.Request) bool {
			if request(isEnqueue).is(q) {
				copies++
				w.f.Put("other", "", 0) // between the two
			}
			return false
		}})
		c := w.acquire(s)
		assert.Equal(w, 1, copies)
		w.release(c)
		w.clear()
	})
}

// A5: a copy of an enqueue that comes after the key was released puts no key, where
// the answer to the first was lost, and where that said that it was not applied.
func TestACopyOfAnEnqueueAfterItsReleaseIsRefused(t *testing.T) {
	for name, err := range map[string]error{
		"answer lost":                         rpctypes.ErrGRPCTimeout,
		"the answer says that it was refused": rpctypes.ErrGRPCNoLeader,
	} {
		for _, limit := range []int{0, 1} {
			t.Run(fmt.Sprint(name, ", slots: ", limit), func(t *testing.T) {
				inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
					w.limit = limit
					s := w.session()
					w.f.Inject(request(isEnqueue).rule(etcdfake.Rule{Err: err, Again: 6 * time.Second, Times: 1}))
					c := w.acquire(s)
					w.release(c)
					time.Sleep(10 * time.Second)
					require.Empty(w, w.keys())
					w.release(w.acquire(s))
					w.clear()
				})
			})
		}
	}
}

// The same with another session waiting, so that a key of ours that was
// forgotten would block it.
func TestEveryFailureOfASettlingEndsInOneHolder(t *testing.T) {
	eachFaultInEachMode(t, func(w *fixture, fa fault) {
		s := w.session()
		w.f.Inject(request(isEnqueue).rule(etcdfake.Rule{Late: 50 * time.Millisecond, Err: rpctypes.ErrGRPCTimeout, Times: 1}))
		hit := w.f.Inject(request(isSettle).rule(fa.rule))
		c, err := w.take(w.Context(), s, Request{})
		assert.NotZero(w, hit.Hits())
		w.f.LiftAll()
		if w.heard(err, fa) {
			return
		}
		require.NoError(w, err)
		time.Sleep(4 * time.Second)
		w.held(c)
		assert.Len(w, w.keys(), 1)
		w.release(c)
		w.clear()
	})
}

// H1: what somebody wrote to the key before the enqueue was settled is somebody's
// write still.
func TestAKeyOverwrittenBeforeItsEnqueueIsSettledIsLost(t *testing.T) {
	for _, handoffs := range []bool{false, true} {
		inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
			s := w.session()
			w.f.Inject(request(isEnqueue).rule(etcdfake.Rule{Err: rpctypes.ErrGRPCTimeout, Times: 1}))
			w.f.Inject(request(isSettle).rule(etcdfake.Rule{Delay: 300 * time.Millisecond, Times: 1}))
			a := w.acquiring(w.Context(), s, Request{Value: s.Label(), Handoffs: handoffs})
			time.Sleep(100 * time.Millisecond)
			kv := w.f.Get(w.keys()[0])
			w.f.Put(string(kv.Key), "x", kv.Lease)
			<-a.done
			time.Sleep(time.Second)
			err := a.err
			if err == nil {
				err = a.c.Err()
			}
			w.oneCause(ErrKeyOverwritten, err)
			w.clear()
		})
	}
}

// A2: a waiter whose query fails queries again, and wins once.
func TestEveryFailureOfAConfirmationEndsInOneHolder(t *testing.T) {
	eachFaultInEachMode(t, func(w *fixture, fa fault) {
		holder := w.acquireExclusive(w.session())
		waiter := w.waiting(w.session())
		hit := w.f.Inject(request(isQuery).rule(fa.rule))
		w.release(holder)
		<-waiter.done
		assert.NotZero(w, hit.Hits())
		w.f.LiftAll()
		if w.heard(waiter.err, fa) {
			return
		}
		c := waiter.won()
		time.Sleep(4 * time.Second)
		w.held(c)
		w.release(c)
		w.clear()
	})
}

func TestEveryFailureOfATryEndsInOneHolder(t *testing.T) {
	for name, r := range map[string]request{"peek": isPeek, "enqueue": isEnqueue, "settle": isSettle} {
		t.Run(name, func(t *testing.T) {
			eachFaultInEachMode(t, func(w *fixture, fa fault) {
				s := w.session()
				if name == "settle" {
					w.f.Inject(request(isEnqueue).rule(etcdfake.Rule{Err: rpctypes.ErrGRPCTimeout, Times: 1}))
				}
				hit := w.f.Inject(r.rule(fa.rule))
				c, err := w.take(w.Context(), s, Request{Try: true})
				assert.NotZero(w, hit.Hits())
				w.f.LiftAll()
				if w.heard(err, fa) {
					return
				}
				require.NoError(w, err)
				time.Sleep(4 * time.Second)
				w.held(c)
				w.release(c)
				w.clear()
			})
		})
	}
}

// Rules R1, R2, hazard U3: a release whose answer was lost says nil when it is known.
func TestEveryFailureOfAReleaseEndsReleased(t *testing.T) {
	eachFaultInEachMode(t, func(w *fixture, fa fault) {
		c := w.acquire(w.session())
		hit := w.f.Inject(request(isRelease).rule(fa.rule))
		err := c.Release(w.Context(), errGivenBack)
		assert.NotZero(w, hit.Hits())
		if err != nil {
			require.ErrorIs(w, err, cluster.ErrUnknown)
			assert.NotErrorIs(w, err, ErrLost)
			w.f.LiftAll()
			require.NoError(w, c.Release(w.Context(), errGivenBack), "called again")
		}
		require.NoError(w, c.Release(w.Context(), errGivenBack), "once decided it says the same")
		assert.ErrorIs(w, c.Err(), errGivenBack)
		w.clear()
	})
}

// Hazard A7: with every request silent, a call ends with its context; rule A4: when the
// faults are over nothing is left.
func TestACallEndsWithItsContextWhereverTheClusterFallsSilent(t *testing.T) {
	eachMode(t, testACallEndsWithItsContext)
}

func testACallEndsWithItsContext(t *testing.T, set func(w *fixture)) {
	type step struct {
		at  request
		try bool
	}
	for name, st := range map[string]step{
		"enqueue": {isEnqueue, false}, "settle": {isSettle, false}, "query": {isQuery, false},
		"peek": {isPeek, true}, "try": {isEnqueue, true}, "undo": {isUndo, false},
	} {
		for _, applied := range []bool{false, true} {
			for _, company := range []int{1, 2, 32} {
				if company > 2 && (testing.Short() || racedetector.On) {
					continue
				}
				t.Run(fmt.Sprint(name, map[bool]string{true: ", applied"}[applied], ", of ", company), func(t *testing.T) {
					inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
						w.others = newOthers(w, company-1, fault{})
						set(w)
						s, holder := w.session(), (*Acquisition)(nil)
						switch {
						case name != "query" && name != "undo":
						case w.shared:
							holder = w.acquireExclusive(w.session())
						default:
							holder = w.acquire(w.session())
						}
						if name == "settle" {
							w.f.Inject(request(isEnqueue).rule(etcdfake.Rule{Err: rpctypes.ErrGRPCTimeout, Times: 1}))
						}
						silent := w.f.Inject(st.at.rule(etcdfake.Rule{Lose: !applied, Hang: true}))
						ctx, cancel := context.WithTimeout(w.Context(), 700*time.Millisecond)
						defer cancel()
						a := w.acquiring(ctx, s, Request{Try: st.try})
						if name == "query" {
							w.release(holder)
							holder = nil
						}
						err := a.failed()
						assert.LessOrEqual(w, a.took, 800*time.Millisecond)
						assert.ErrorIs(w, err, context.DeadlineExceeded)
						synctest.Wait()
						assert.NotZero(w, silent.Hits())
						if name == "undo" { // its later tries are given more time, now and then
							time.Sleep(time.Second)
						} else {
							time.Sleep(5 * time.Second)
						}
						w.f.LiftAll()
						time.Sleep(time.Second)
						synctest.Wait()
						if holder != nil {
							assert.Equal(w, []string{holder.Key()}, w.keys())
							w.release(holder)
						}
						require.NoError(w, s.Err())
						w.clear()
						met := w.others.end()
						assert.True(w, met || name == "peek", "nothing was written beside it")
					})
				})
			}
		}
	}
}

// Hazard A6: under NOSPACE an enqueue may have been applied; nothing of it
// stays, though only deletes go through.
func TestNoSpaceLeavesNothingBehind(t *testing.T) {
	eachMode(t, testNoSpaceLeavesNothing)
}

func testNoSpaceLeavesNothing(t *testing.T, set func(w *fixture)) {
	inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
		set(w)
		s := w.session()
		w.f.Inject(request(isEnqueue).rule(etcdfake.Rule{Err: rpctypes.ErrGRPCNoSpace, Times: 1}))
		w.f.Inject(etcdfake.Rule{Method: "Txn", Lose: true, Err: rpctypes.ErrGRPCNoSpace, Match: func(q etcdfake.Request) bool {
			t, ok := q.Message.(*pb.TxnRequest)
			return ok && (op(t.Success, 0).GetRequestPut() != nil || op(t.Failure, 0).GetRequestPut() != nil)
		}})
		_, err := w.take(w.Context(), s, Request{})
		require.Error(w, err)
		assert.True(w, cluster.IsNoSpace(err), "%v", err)
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Empty(w, w.f.Keys("name"))
		w.f.LiftAll()
		w.clear()
	})
}

// R1: and whatever becomes of the read that shows why a release did not find its
// key: released where the answer of a delete was lost, else not held until then.
func TestEveryFailureOfTheReadAfterAReleaseEndsDecided(t *testing.T) {
	for name, answerLost := range map[string]bool{"the delete's answer was lost": true, "an operator deleted it": false} {
		t.Run(name, func(t *testing.T) {
			eachFaultInEachMode(t, func(w *fixture, fa fault) {
				c := w.acquire(w.session())
				if answerLost {
					w.f.Inject(request(isRelease).rule(etcdfake.Rule{Err: status.Error(codes.Unavailable, "gone"), Times: 1}))
				} else {
					for _, key := range c.AllKeys() {
						w.f.Delete(key)
					}
				}
				hit := w.f.Inject(request(isExplain).rule(fa.rule))
				err := c.Release(w.Context(), errGivenBack)
				assert.NotZero(w, hit.Hits())
				w.f.LiftAll()
				if err != nil && !errors.Is(err, ErrLost) {
					require.ErrorIs(w, err, cluster.ErrUnknown)
					err = c.Release(w.Context(), errGivenBack)
				}
				if answerLost {
					require.NoError(w, err)
				} else {
					require.ErrorIs(w, err, ErrKeyDeleted)
				}
				w.clear()
			})
		})
	}
}

// R1: a release that did not find its key before any delete was sent whose answer
// was lost is a loss for good, though the read of why fails, and the answer to a
// later delete is lost.
func TestALossThatAReleaseSawIsNoReleaseWhenALaterAnswerIsLost(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
		c := w.acquire(w.session())
		w.f.Delete(c.Key())
		look := w.f.Inject(request(isExplain).rule(etcdfake.Rule{Lose: true, Hang: true}))
		lost := w.f.Inject(request(isRelease).rule(etcdfake.Rule{Err: status.Error(codes.Unavailable, "gone"), Skip: 1, Times: 1}))
		ctx, cancel := context.WithTimeout(w.Context(), 10*time.Millisecond)
		defer cancel()
		require.ErrorIs(w, c.Release(ctx, errGivenBack), cluster.ErrUnknown)
		require.NotZero(w, look.Hits())
		look.Lift()
		assert.ErrorIs(w, c.Release(w.Context(), errGivenBack), ErrKeyDeleted)
		assert.NotZero(w, lost.Hits())
		w.clear()
	})
}

// R1: a release holds nothing but deletes, and so works on a full disk, also
// behind an undo that cannot be finished there (it puts a cancel key).
func TestAReleaseInTheBackgroundDoesNotWaitForAnUndoOnAFullDisk(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
		s := w.session()
		c := w.acquire(s)
		w.f.SetNoSpace(true)
		other, err := New("", "other", false)
		require.NoError(w, err)
		_, err = Acquire(w.Context(), s, other, Request{})
		require.Error(w, err)
		lost := w.f.Inject(request(isRelease).rule(etcdfake.Rule{Lose: true}))
		ctx, cancel := context.WithCancel(w.Context())
		cancel()
		require.ErrorIs(w, c.Release(ctx, errGivenBack), cluster.ErrUnknown)
		time.Sleep(3 * time.Second)
		lost.Lift()
		time.Sleep(4 * time.Second) // the try under way may be a long one
		synctest.Wait()
		assert.Empty(w, w.keys(), "the release that went on in the background")
		w.f.SetNoSpace(false)
		w.clear()
	})
}

// isDelayedQuery is the query of one that waits out a Delay.
func isDelayedQuery(t *pb.TxnRequest) bool {
	return below(t) == 1 && len(t.Success) == 3
}

// isRewrite puts a value on a key that is there.
func isRewrite(t *pb.TxnRequest) bool {
	return inQueue(op(t.Success, 0).GetRequestPut().GetKey()) && len(t.Failure) == 2
}

func isPut(ev *mvccpb.Event) bool { return ev.Type == mvccpb.Event_PUT }
