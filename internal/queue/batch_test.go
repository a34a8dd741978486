package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/hooks"
	"github.com/pawl-locks/pawl/internal/queue/state"
	"github.com/pawl-locks/pawl/internal/session"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/opnames"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/kv"
	"github.com/pawl-locks/pawl/lease"
)

// gathering returns a session whose writes gather for a millisecond, and a function that returns
// how many writes each request has had since.
func (w *fixture) gathering() (s *session.Session, sizes func() []int) {
	s = w.session()
	synctest.Wait()
	s.Host().Batch.Hold(time.Millisecond, 32, nil)
	var mu sync.Mutex
	var all []int
	w.f.Inject(etcdfake.Rule{Method: "Txn", Match: func(q etcdfake.Request) bool {
		if t := q.Message.(*pb.TxnRequest); len(t.Compare) > 0 || len(q.Ops()) > 1 {
			mu.Lock()
			defer mu.Unlock()
			all = append(all, len(q.Ops()))
		}
		return false
	}})
	return s, func() []int {
		mu.Lock()
		defer mu.Unlock()
		got := all
		all = nil
		return got
	}
}

// each runs f for n names at the same time.
func (w *fixture) each(n int, etcdLayout bool, f func(q Queue)) {
	var all sync.WaitGroup
	for i := range n {
		q, err := New("", fmt.Sprint("each", i), etcdLayout)
		require.NoError(w, err)
		all.Go(func() { f(q) })
	}
	all.Wait()
}

// Rule G1: in etcd's layout every write is sent alone.
// rule: G1
func TestInEtcdsLayoutEverythingGoesAlone(t *testing.T) {
	for _, etcdLayout := range []bool{true, false} {
		inBubble(t, etcdfake.Options{}, func(w *fixture) {
			s, sizes := w.gathering()
			w.each(8, etcdLayout, func(q Queue) {
				c, err := Acquire(w.Context(), s, Request{}, q)
				if assert.NoError(w, err) {
					assert.NoError(w, c.Release(w.Context(), errGivenBack))
				}
			})
			if etcdLayout {
				assert.Len(w, sizes(), 16)
			} else {
				assert.Equal(w, []int{8, 8}, sizes())
			}
			if !etcdLayout {
				return
			}
			nested, err := New("", "a/b", true)
			require.NoError(w, err)
			last := w.began(s, nested)
			require.Contains(w, last.Key(), "a/b/")
			last.apply(state.AnswerLost{}, nil)
			last.apply(state.GaveUp{}, nil)
			w.each(8, false, func(q Queue) {
				c, err := Acquire(w.Context(), s, Request{}, q)
				if assert.NoError(w, err) {
					assert.NoError(w, c.Release(w.Context(), errGivenBack))
				}
			})
			assert.Equal(w, []int{1, 8, 8}, sizes(), "a removal too, where names nest")
		})
	}
}

// Rule G1: queries, session keys and callers' transactions are sent alone, however many there are
// at a time.
// rule: G1
func TestWhatIsNoWriteOfTheQueueGoesAlone(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
		s, sizes := w.gathering()
		w.each(8, false, func(Queue) {
			own, err := session.Grant(w.Context(), s.Host(), lease.Options{})
			if assert.NoError(w, err) {
				assert.NoError(w, own.Close(w.Context()))
			}
		})
		assert.NotContains(w, sizes(), 8, "session keys")
		w.each(8, false, func(q Queue) {
			_, err := hooks.KVClient(s.Host().Cluster).(*kv.Client).Txn(w.Context(), kv.Txn{Then: []kv.Op{kv.Put("of"+q.Prefix+"x", nil)}})
			assert.NoError(w, err)
		})
		assert.NotContains(w, sizes(), 8, "callers' transactions")

		holder := w.session()
		var held sync.Map
		var released sync.WaitGroup
		w.each(8, false, func(q Queue) {
			c, err := Acquire(w.Context(), holder, Request{}, q)
			assert.NoError(w, err)
			held.Store(q.Name, c)
		})
		time.AfterFunc(time.Second, func() {
			assert.Contains(w, sizes(), 8, "enqueues")
			held.Range(func(_, c any) bool {
				released.Go(func() { assert.NoError(w, c.(*Acquisition).Release(w.Context(), errGivenBack)) })
				return true
			})
		})
		w.each(8, false, func(q Queue) {
			_, err := Acquire(w.Context(), s, Request{}, q)
			assert.NoError(w, err)
		})
		released.Wait()
		assert.NotContains(w, sizes(), 8, "queries")
	})
}

// Rules G10, R1: releases beside enqueues that the full disk refuses all return nil.
// rule: G10
func TestReleasesBesideRefusedEnqueuesSayNil(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
		s, sizes := w.gathering()
		var held []*Acquisition
		var mu sync.Mutex
		w.each(100, false, func(q Queue) {
			c, err := Acquire(w.Context(), s, Request{}, q)
			assert.NoError(w, err)
			mu.Lock()
			defer mu.Unlock()
			held = append(held, c)
		})
		sizes()
		w.f.SetNoSpace(true)
		var all sync.WaitGroup
		for i, c := range held {
			all.Go(func() { assert.NoError(w, c.Release(w.Context(), errGivenBack)) })
			all.Go(func() {
				q, err := New("", fmt.Sprint("refused", i), false)
				assert.NoError(w, err)
				_, err = Acquire(w.Context(), s, Request{}, q)
				assert.True(w, cluster.IsNoSpace(err), "%v", err)
			})
		}
		all.Wait()
		assert.Contains(w, sizes(), 32, "they were of one request")
		w.f.SetNoSpace(false)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		assert.Empty(w, w.f.Keys("each"))
		assert.Empty(w, w.f.Keys("refused"))
	})
}

// Rules G6, F5: a forbidden name, or a lease that is gone, affects only those that use it.
// rule: G6
func TestWhatOneIsRefusedForConcernsNobodyElse(t *testing.T) {
	for name, refuse := range map[string]func(w *fixture, s *session.Session) (*session.Session, func(error) bool){
		"a name that is forbidden": func(w *fixture, s *session.Session) (*session.Session, func(error) bool) {
			w.f.Inject(isEnqueue.rule(etcdfake.Rule{Lose: true, Err: rpctypes.ErrGRPCPermissionDenied}))
			return s, cluster.IsPermissionDenied
		},
		"a lease that is gone": func(w *fixture, s *session.Session) (*session.Session, func(error) bool) {
			own, err := session.Grant(w.Context(), s.Host(), lease.Options{})
			require.NoError(w, err)
			w.f.Inject(isEnqueue.rule(etcdfake.Rule{Err: rpctypes.ErrGRPCTimeout, Times: 1}))
			w.before(isSettle, func(*pb.TxnRequest) { w.f.Revoke(own.ID()) })
			return own, func(err error) bool { return errors.Is(err, lease.ErrRevoked) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
				s, sizes := w.gathering()
				own, why := refuse(w, s)
				var refused sync.WaitGroup
				refused.Go(func() {
					_, err := Acquire(w.Context(), own, Request{}, w.queue())
					assert.True(w, why(err), "%v", err)
				})
				w.each(31, false, func(q Queue) {
					c, err := Acquire(w.Context(), s, Request{}, q)
					if assert.NoError(w, err) {
						assert.NoError(w, c.Release(w.Context(), errGivenBack))
					}
				})
				refused.Wait()
				assert.Contains(w, sizes(), 32)
				assert.NoError(w, s.Err())
				w.f.LiftAll()
				w.clear()
			})
		})
	}
}

// Rule G8: a write that a session has not sent before its end is not sent.
func TestASessionThatEndsSendsNothingMore(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
		s, sizes := w.gathering()
		sizes()
		s.Host().Batch.Hold(time.Second, 32, nil)
		time.AfterFunc(100*time.Millisecond, func() { _ = s.Close(w.Context()) })
		began := time.Now()
		w.each(3, false, func(q Queue) {
			_, err := Acquire(w.Context(), s, Request{}, q)
			w.oneCause(errClosed, err)
		})
		assert.Equal(w, 100*time.Millisecond, time.Since(began))
		time.Sleep(2 * time.Second)
		assert.Empty(w, sizes())
	})
}

// A6: what many gave up is removed by few requests, together with what others do.
func TestWhatManyGaveUpIsRemovedTogether(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
		s, sizes := w.gathering()
		holder := w.acquire(w.session())
		ctx, cancel := context.WithCancel(w.Context())
		var all []*acquireCall
		for range 40 {
			all = append(all, w.acquiring(ctx, s, Request{}))
		}
		sizes()
		w.f.Inject(etcdfake.Rule{Method: "Txn", HoldAnswer: 10 * time.Millisecond}) // all have given up before the first is removed
		cancel()
		for _, a := range all {
			assert.ErrorIs(w, a.failed(), context.Canceled)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Len(w, w.keys(), 1)
		assert.LessOrEqual(w, len(sizes()), 8)
		w.release(holder)
	})
}

// Rules G6, N4: if a settlement that is sent again after its answer was lost finds a lease gone, it
// ends that lease's session, and no other session whose settlement was in that request.
func TestALeaseThatIsGoneEndsNoOtherSessionAfterALostAnswer(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
		c, err := pawl.Dial(w.Context(), pawl.Config{Endpoints: w.f.Endpoints(), DialOptions: []grpc.DialOption{w.f.DialOption(), opnames.DialOption()}})
		require.NoError(w, err)
		defer c.Close()
		var both [2]*session.Session
		for i := range both {
			own, err := c.NewSession(w.Context(), lease.Options{})
			require.NoError(w, err)
			both[i] = hooks.SessionOf(own)
		}
		synctest.Wait()
		both[0].Host().Batch.Hold(time.Millisecond, 32, nil)
		lost := 0
		w.f.Inject(etcdfake.Rule{Method: "Txn", Lose: true, Err: rpctypes.ErrGRPCTimeout, Times: 2, Match: func(q etcdfake.Request) bool {
			if len(q.Ops()) != 2 {
				return false
			}
			if lost++; lost == 2 {
				w.f.Revoke(both[1].ID())
			}
			return true
		}})
		var all sync.WaitGroup
		for i, s := range both {
			all.Go(func() {
				q, err := New("", fmt.Sprint("each", i), false)
				require.NoError(w, err)
				got, err := Acquire(w.Context(), s, Request{}, q)
				if i == 1 {
					assert.ErrorIs(w, err, lease.ErrRevoked)
				} else if assert.NoError(w, err) {
					assert.NoError(w, got.Release(w.Context(), errGivenBack))
				}
			})
		}
		all.Wait()
		assert.GreaterOrEqual(w, lost, 2)
		assert.NoError(w, both[0].Err())
	})
}
