package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/etcdapi"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
)

// A request is an operation of the engine, identified by its name.
type request string

const (
	isEnqueue request = "enqueue"
	isTake    request = "take slot"
	isSettle  request = "settle enqueue"
	isQuery   request = "confirm position"
	isResume  request = "resume"
	isPeek    request = "read who holds"
	isRelease request = "release"
	isHandoff request = "hand off"
	isWhy     request = "read why an enqueue was refused"
	isExplain request = "read why a release failed"
	isUndo    request = "leave the queue"
	isRewrite request = "write value"
	isConfirm request = "confirm"
)

// of returns the transaction in q that is r and is about the tests' queues, or nil if there is
// none.
func (r request) of(q etcdfake.Request) *pb.TxnRequest {
	for _, t := range q.Parts(string(r)) {
		if ofTests(t) {
			return t
		}
	}
	return nil
}

// is reports whether q is r or contains r as a part. It serves as the Match of a rule.
func (r request) is(q etcdfake.Request) bool { return r.of(q) != nil }

func (r request) rule(rule etcdfake.Rule) etcdfake.Rule {
	rule.Match = r.is
	return rule
}

// ofTests reports whether t is about the tests' queues, and not about those of others.
func ofTests(t *pb.TxnRequest) bool {
	for _, o := range slices.Concat(t.Success, t.Failure) {
		for _, key := range [][]byte{o.GetRequestPut().GetKey(), o.GetRequestDeleteRange().GetKey(), o.GetRequestRange().GetKey()} {
			if strings.HasPrefix(string(key), "name") || strings.HasPrefix(string(key), keys.SemaphoreRoot("")+"name") {
				return true
			}
		}
		if part := o.GetRequestTxn(); part != nil && ofTests(part) {
			return true
		}
	}
	return false
}

// fault is one way in which a request fails.
type fault struct {
	name  string
	rule  etcdfake.Rule
	final bool // nobody would answer otherwise, so a caller may learn of it
}

// own reports whether the fault is about the write itself, so that a caller whose write shared the
// request does not learn of it.
func (fa fault) own() bool {
	err := fa.rule.Err
	return cluster.IsPermissionDenied(err) || cluster.IsTooLarge(err) || cluster.IsTooManyOps(err)
}

// heard reports whether err is fa, which has ended an acquisition. Then nothing of it is left.
func (w *fixture) heard(err error, fa fault) bool {
	if err == nil || !fa.final {
		return false
	}
	assert.ErrorContains(w, err, status.Convert(fa.rule.Err).Message())
	w.clear()
	return true
}

const injected = "injected"

// faults are all ways in which a request fails: it is lost, or its answer is, with each code or
// with silence; it is late; it is applied twice; it is refused. (A lease that is gone ends a
// session: TestWhatOneIsRefusedForConcernsNobodyElse.)
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
		if code != codes.Unimplemented { // gRPC says this of what it did not process
			fs = append(fs, fault{"answer lost, " + code.String(), etcdfake.Rule{Err: err}, false})
		}
	}
	return fs
}

// A4, A5, A6: however an enqueue fails, the lock is acquired once, and its release leaves no trace.
// rule: A5, G6
func TestEveryFailureOfAnEnqueueEndsInOneHolder(t *testing.T) {
	eachFaultInEachMode(t, isEnqueue, func(w *fixture, fa fault) {
		s := w.session()
		hit := w.f.Inject(isEnqueue.rule(fa.rule))
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

// K1, A5: an enqueue that was applied although its answer said that it was not is found by the
// second copy. The token is the key's, not that of the answer.
func TestTheTokenOfAnEnqueueFoundAppliedIsItsKeys(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
		s := w.session()
		w.f.Inject(isEnqueue.rule(etcdfake.Rule{Times: 1, Err: rpctypes.ErrGRPCNoLeader}))
		copies := 0
		w.f.Inject(etcdfake.Rule{Method: "Txn", Match: func(q etcdfake.Request) bool {
			if isEnqueue.is(q) {
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

// A5: a copy of an enqueue that arrives after the key was released puts no key, whether the answer
// to the first copy was lost or said that it was not applied.
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
					w.f.Inject(isEnqueue.rule(etcdfake.Rule{Err: err, Again: 6 * time.Second, Times: 1}))
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

// The same with another session waiting, so that a key that we forgot would block it.
// rule: A5, ML5
func TestEveryFailureOfASettlingEndsInOneHolder(t *testing.T) {
	eachFaultInEachMode(t, isSettle, func(w *fixture, fa fault) {
		s := w.session()
		w.f.Inject(isEnqueue.rule(etcdfake.Rule{Late: 50 * time.Millisecond, Err: rpctypes.ErrGRPCTimeout, Times: 1}))
		hit := w.f.Inject(isSettle.rule(fa.rule))
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

// H1: a foreign write to the key before the enqueue is settled is still found to be foreign.
func TestAKeyOverwrittenBeforeItsEnqueueIsSettledIsLost(t *testing.T) {
	for _, handoffs := range []bool{false, true} {
		inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
			s := w.session()
			w.f.Inject(isEnqueue.rule(etcdfake.Rule{Err: rpctypes.ErrGRPCTimeout, Times: 1}))
			w.f.Inject(isSettle.rule(etcdfake.Rule{Delay: 300 * time.Millisecond, Times: 1}))
			a := w.acquiring(w.Context(), s, Request{Value: s.LabelOf("", false, "", nil), Handoffs: handoffs})
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
// rule: A2, RW3, ML3
func TestEveryFailureOfAConfirmationEndsInOneHolder(t *testing.T) {
	eachFaultInEachMode(t, isQuery, func(w *fixture, fa fault) {
		holder := w.acquireExclusive(w.session())
		waiter := w.waiting(w.session())
		hit := w.f.Inject(isQuery.rule(fa.rule))
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
			each := testscale.Of(eachFault, eachFaultInEachMode) // a try sends the same, in each mode
			if r == isPeek {
				each = eachFaultInEachMode
			}
			each(t, r, func(w *fixture, fa fault) {
				s := w.session()
				if name == "settle" {
					w.f.Inject(isEnqueue.rule(etcdfake.Rule{Err: rpctypes.ErrGRPCTimeout, Times: 1}))
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

// Rules R1, R2, hazard U3: a release whose answer was lost returns nil once the result is known.
// rule: R1
func TestEveryFailureOfAReleaseEndsReleased(t *testing.T) {
	eachFaultInEachMode(t, isRelease, func(w *fixture, fa fault) {
		c := w.acquire(w.session())
		hit := w.f.Inject(isRelease.rule(fa.rule))
		err := c.Release(w.Context(), errGivenBack)
		assert.NotZero(w, hit.Hits())
		if err != nil {
			require.ErrorIs(w, err, cluster.ErrUnknown)
			assert.NotErrorIs(w, err, ErrLost)
			w.f.LiftAll()
			require.NoError(w, c.Release(w.Context(), errGivenBack), "called again")
		}
		w.f.LiftAll() // so that what is left of the fault does not hit another's release
		require.NoError(w, c.Release(w.Context(), errGivenBack), "once decided it says the same")
		assert.ErrorIs(w, c.Err(), errGivenBack)
		w.clear()
	})
}

// Hazard A7, rule A4: if the cluster is silent to every request, a call ends with its context. When
// the faults end, nothing is left.
func TestACallEndsWithItsContextWhereverTheClusterFallsSilent(t *testing.T) {
	eachMode(t, testACallEndsWithItsContext)
}

func testACallEndsWithItsContext(t *testing.T, mode string) {
	type step struct {
		at  request
		try bool
	}
	for name, st := range map[string]step{
		"enqueue": {isEnqueue, false}, "settle": {isSettle, false}, "query": {isQuery, false},
		"peek": {isPeek, true}, "try": {isEnqueue, true}, "undo": {isUndo, false},
	} {
		for _, applied := range []bool{false, true} {
			for _, batch := range []int{1, 2, 32} {
				shares := slices.Contains(sharesRequests, st.at) && mode == exclusive
				if testscale.Of(batch > 1 && !shares || batch > 2, false) {
					continue
				}
				t.Run(fmt.Sprint(name, map[bool]string{true: ", applied"}[applied], ", of ", batch), func(t *testing.T) {
					inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
						w.others = newOthers(w, batch-1, fault{})
						modes[mode](w)
						s, holder := w.session(), (*Acquisition)(nil)
						switch {
						case name != "query" && name != "undo":
						case w.shared:
							holder = w.acquireExclusive(w.session())
						default:
							holder = w.acquire(w.session())
						}
						if name == "settle" {
							w.f.Inject(isEnqueue.rule(etcdfake.Rule{Err: rpctypes.ErrGRPCTimeout, Times: 1}))
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
						if name == "undo" { // its later tries sometimes have more time
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

// Hazard A6: under NOSPACE an enqueue may have been applied. Nothing of it stays, although only
// deletes succeed.
// rule: A6
func TestNoSpaceLeavesNothingBehind(t *testing.T) {
	eachMode(t, testNoSpaceLeavesNothing)
}

func testNoSpaceLeavesNothing(t *testing.T, mode string) {
	inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
		modes[mode](w)
		s := w.session()
		w.f.Inject(isEnqueue.rule(etcdfake.Rule{Err: rpctypes.ErrGRPCNoSpace, Times: 1}))
		w.f.Inject(etcdfake.Rule{Method: "Txn", Lose: true, Err: rpctypes.ErrGRPCNoSpace, Match: func(q etcdfake.Request) bool {
			t, ok := q.Message.(*pb.TxnRequest)
			return ok && slices.ContainsFunc(slices.Concat(t.Success, t.Failure), func(o *pb.RequestOp) bool { return o.GetRequestPut() != nil })
		}})
		c, err := w.take(w.Context(), s, Request{})
		if w.limit == 0 { // the key is there, and no other key has to be put
			require.NoError(w, err)
			w.release(c)
		} else { // no slot can be taken
			assert.True(w, cluster.IsNoSpace(err), "%v", err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Empty(w, w.keys())
		w.f.LiftAll()
		w.clear()
	})
}

// R1: the same for each failure of the read that shows why a release did not find its key. It was
// released if the answer of a delete was lost, and otherwise was not held until then.
func TestEveryFailureOfTheReadAfterAReleaseEndsDecided(t *testing.T) {
	for name, answerLost := range map[string]bool{"the delete's answer was lost": true, "an operator deleted it": false} {
		t.Run(name, func(t *testing.T) {
			eachFaultInEachMode(t, isExplain, func(w *fixture, fa fault) {
				c := w.acquire(w.session())
				if answerLost {
					w.f.Inject(isRelease.rule(etcdfake.Rule{Err: status.Error(codes.Unavailable, "gone"), Times: 1}))
				} else {
					for _, key := range c.AllKeys() {
						w.f.Delete(key)
					}
				}
				hit := w.f.Inject(isExplain.rule(fa.rule))
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

// R1: if a release did not find its key before any delete was sent whose answer was lost, that is a
// loss for good, even if the read of the reason fails and the answer to a later delete is lost.
func TestALossThatAReleaseSawIsNoReleaseWhenALaterAnswerIsLost(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
		c := w.acquire(w.session())
		w.f.Delete(c.Key())
		look := w.f.Inject(isExplain.rule(etcdfake.Rule{Lose: true, Hang: true}))
		lost := w.f.Inject(isRelease.rule(etcdfake.Rule{Err: status.Error(codes.Unavailable, "gone"), Skip: 1, Times: 1}))
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

// R1: a release contains only deletes, so it works on a full disk, also behind an undo that cannot
// finish there because it puts a cancel key.
func TestAReleaseInTheBackgroundDoesNotWaitForAnUndoOnAFullDisk(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
		s := w.session()
		c := w.acquire(s)
		w.f.SetNoSpace(true)
		other, err := New("", "other", false)
		require.NoError(w, err)
		_, err = Acquire(w.Context(), s, Request{}, other)
		require.Error(w, err)
		lost := w.f.Inject(isRelease.rule(etcdfake.Rule{Lose: true}))
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

func isPut(ev *mvccpb.Event) bool { return ev.Type == etcdapi.EventPut }
