package queue_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/etcdapi"
	"github.com/pawl-locks/pawl/internal/hooks"
	"github.com/pawl-locks/pawl/internal/queue"
	"github.com/pawl-locks/pawl/internal/session"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/opnames"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/kv"
	"github.com/pawl-locks/pawl/lease"
)

// writer is an acquisition that is held on a fake cluster, in a bubble.
type writer struct {
	*etcdfake.Cluster
	t     *testing.T
	ctx   context.Context
	lease *session.Session
	held  *queue.Acquisition
}

var errDone = errors.New("given back")

func rewriting(t *testing.T, f func(w *writer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		fake := etcdfake.New(etcdfake.Options{Members: 3})
		defer fake.Close()
		c, err := pawl.Dial(t.Context(), pawl.Config{Endpoints: fake.Endpoints(), DialOptions: []grpc.DialOption{fake.DialOption(), opnames.DialOption()}})
		require.NoError(t, err)
		defer c.Close()
		s, err := c.NewSession(t.Context(), lease.Options{TTL: 60 * time.Second})
		require.NoError(t, err)
		engine := hooks.SessionOf(s)
		q, err := queue.New("", "e", false)
		require.NoError(t, err)
		held, err := queue.Acquire(t.Context(), engine, queue.Request{Value: []byte("0")}, q)
		require.NoError(t, err)
		f(&writer{fake, t, t.Context(), engine, held})
	})
}

func (w *writer) value() string { return string(w.Get(w.held.Key()).Value) }

// puts returns the values that the key had, in order.
func (w *writer) puts() (all []string) {
	for _, c := range w.History() {
		if c.Key == w.held.Key() && !c.Deleted {
			all = append(all, string(c.Value))
		}
	}
	return all
}

func (w *writer) rewrite(value string) error { return w.held.Rewrite(w.ctx, []byte(value)) }

// writeOf matches transactions that put value on a key.
func writeOf(value string) func(etcdfake.Request) bool {
	return func(r etcdfake.Request) bool {
		t, ok := r.Message.(*pb.TxnRequest)
		if !ok {
			return false
		}
		for _, op := range t.Success {
			if p := op.GetRequestPut(); p != nil && string(p.Value) == value {
				return true
			}
		}
		return false
	}
}

var unavailable = status.Error(codes.Unavailable, "connection lost")

func TestRewriteChangesTheValueAndNeitherKeyNorToken(t *testing.T) {
	rewriting(t, func(w *writer) {
		key, token := w.held.Key(), w.held.Token()
		for _, v := range []string{"1", "2", "2", "", "3"} {
			require.NoError(t, w.rewrite(v))
		}
		time.Sleep(time.Minute) // the watch is armed, and renewals read
		require.NoError(t, w.held.Err())
		assert.Equal(t, []string{"0", "1", "2", "2", "", "3"}, w.puts())
		assert.Equal(t, key, w.held.Key())
		assert.Equal(t, token, w.held.Token())
		assert.Equal(t, int64(token), w.Get(key).CreateRevision)
		assert.Equal(t, w.lease.ID(), w.Get(key).Lease)
	})
}

func TestRewriteCopiesItsValue(t *testing.T) {
	rewriting(t, func(w *writer) {
		time.Sleep(time.Second)
		w.Inject(etcdfake.Rule{Method: "Txn", Match: writeOf("a"), Late: time.Second})
		ctx, cancel := context.WithTimeout(w.ctx, 50*time.Millisecond)
		defer cancel()
		v := []byte("a")
		require.ErrorIs(t, w.held.Rewrite(ctx, v), kv.ErrUnknown)
		v[0] = 'b'
		time.Sleep(2 * time.Second)
		assert.Equal(t, "a", w.value())
		assert.NoError(t, w.held.Err(), "it is known as ours by the value that was given")
	})
}

func TestRewriteWhoseAnswerIsLostPutsItsValueOnce(t *testing.T) {
	for name, rule := range map[string]etcdfake.Rule{
		"applied":           {Err: unavailable},
		"not applied":       {Lose: true, Err: unavailable},
		"applied later":     {Late: 20 * time.Millisecond, Err: unavailable},
		"applied, no word":  {Hang: true},
		"lost, no word":     {Lose: true},
		"applied and again": {Again: 5 * time.Second},
	} {
		for _, times := range []int{1, 2} {
			t.Run(name, func(t *testing.T) {
				rewriting(t, func(w *writer) {
					time.Sleep(time.Second)
					rule.Method, rule.Match, rule.Times = "Txn", writeOf("1"), times
					w.Inject(rule)
					require.NoError(t, w.rewrite("1"))
					require.NoError(t, w.rewrite("2"))
					time.Sleep(time.Minute)
					require.NoError(t, w.held.Err())
					assert.Equal(t, []string{"0", "1", "2"}, w.puts())
				})
			})
		}
	}
}

func TestDelayedCopyOfAnOlderValueNeverReplacesANewerOne(t *testing.T) {
	for _, late := range []time.Duration{time.Millisecond, 40 * time.Millisecond, 100 * time.Millisecond, 3 * time.Second, 20 * time.Second} {
		rewriting(t, func(w *writer) {
			w.Inject(etcdfake.Rule{Method: "Txn", Match: writeOf("old"), Late: late})
			ctx, cancel := context.WithTimeout(w.ctx, session.ArmDelay-time.Millisecond) // no watch shows what landed
			defer cancel()
			err := w.held.Rewrite(ctx, []byte("old"))
			require.ErrorIs(t, err, kv.ErrUnknown)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.NoError(t, w.rewrite("new"))
			time.Sleep(time.Minute)
			require.NoError(t, w.held.Err(), "late by %v", late)
			assert.Equal(t, "new", w.value())
			assert.LessOrEqual(t, len(w.puts()), 3)
		})
	}
}

func TestDelayedCopyIsSettledEvenIfNobodyCallsAgain(t *testing.T) {
	rewriting(t, func(w *writer) {
		w.Inject(etcdfake.Rule{Method: "Txn", Match: writeOf("old"), Late: 30 * time.Second})
		ctx, cancel := context.WithTimeout(w.ctx, 50*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, w.held.Rewrite(ctx, []byte("old")), kv.ErrUnknown)
		time.Sleep(2 * time.Minute)
		require.NoError(t, w.held.Err(), "a copy of ours is no overwriting")
		assert.Equal(t, "old", w.value())
		require.NoError(t, w.rewrite("new"))
		assert.Equal(t, "new", w.value())
	})
}

func TestUnknownIsNotCalledNotAppliedAfterARefusedRepeat(t *testing.T) {
	rewriting(t, func(w *writer) {
		w.Inject(etcdfake.Rule{Method: "Txn", Match: writeOf("1"), Times: 1, Late: time.Second, Err: unavailable})
		w.Inject(etcdfake.Rule{Method: "Txn", Match: writeOf("1"), Lose: true, Err: status.Error(codes.PermissionDenied, "etcdserver: permission denied")})
		err := w.rewrite("1")
		require.ErrorIs(t, err, kv.ErrUnknown, "the first copy was under way: %v", err)
		time.Sleep(2 * time.Second)
		assert.Equal(t, "1", w.value())
		assert.NoError(t, w.held.Err())
	})
}

func TestRefusedRewriteIsNotApplied(t *testing.T) {
	rewriting(t, func(w *writer) {
		f := w.Inject(etcdfake.Rule{Method: "Txn", Match: writeOf("1"), Lose: true, Err: status.Error(codes.PermissionDenied, "etcdserver: permission denied")})
		err := w.rewrite("1")
		require.Error(t, err)
		require.NotErrorIs(t, err, kv.ErrUnknown)
		f.Lift()
		require.NoError(t, w.rewrite("2"))
		assert.Equal(t, []string{"0", "2"}, w.puts())
	})
}

func TestRewriteOnAFullDiskIsUnknownAndBounded(t *testing.T) {
	rewriting(t, func(w *writer) {
		w.SetNoSpace(true)
		before := w.Counts()
		require.ErrorIs(t, w.rewrite("1"), kv.ErrUnknown)
		assert.LessOrEqual(t, w.Counts().Since(before).Received["Txn"], 3)
		w.SetNoSpace(false)
		require.NoError(t, w.rewrite("2"))
		assert.Equal(t, "2", w.value())
	})
}

func TestRewriteEndsWhenNobodyAnswers(t *testing.T) {
	rewriting(t, func(w *writer) {
		w.BlackHole()
		begin := time.Now()
		require.Error(t, w.held.Rewrite(context.Background(), []byte("1")))
		assert.LessOrEqual(t, time.Since(begin), time.Minute)
	})
}

// rule: H1
func TestForeignPutIsAnOverwriting(t *testing.T) {
	for name, foreign := range map[string]func(w *writer, value string) int64{
		"no lease":    func(w *writer, v string) int64 { return w.Put(w.held.Key(), v, 0) },
		"on our own":  func(w *writer, v string) int64 { return w.Put(w.held.Key(), v, w.lease.ID()) },
		"deleted too": func(w *writer, v string) int64 { w.Delete(w.held.Key()); return w.Put(w.held.Key(), v, w.lease.ID()) },
	} {
		for _, armed := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				rewriting(t, func(w *writer) {
					require.NoError(t, w.rewrite("1"))
					if armed {
						time.Sleep(time.Second)
					}
					foreign(w, "foreign")
					err := w.rewrite("2")
					require.ErrorIs(t, err, queue.ErrLost)
					want := queue.ErrKeyOverwritten
					if name == "deleted too" {
						want = queue.ErrKeyDeleted
					}
					require.ErrorIs(t, err, want)
					require.ErrorIs(t, w.held.Err(), want)
					time.Sleep(time.Second)
					assert.NotContains(t, w.puts(), "2")
				})
			})
		}
	}
}

// A put of the value that is under way, but on another lease, is not ours.
func TestForeignPutOfOurValueIsForeignByItsLease(t *testing.T) {
	rewriting(t, func(w *writer) {
		time.Sleep(time.Second)
		w.Inject(etcdfake.Rule{Method: "Txn", Match: writeOf("v"), Lose: true})
		ctx, cancel := context.WithTimeout(w.ctx, 50*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, w.held.Rewrite(ctx, []byte("v")), kv.ErrUnknown)
		w.Put(w.held.Key(), "v", 0)
		synctest.Wait()
		require.ErrorIs(t, w.held.Err(), queue.ErrKeyOverwritten)
	})
}

// The watch delivers nothing here, so only the read of a renewal can find the foreign put.
func TestForeignPutIsFoundWhileAWriteIsUnknownAndNobodyCallsAgain(t *testing.T) {
	rewriting(t, func(w *writer) {
		time.Sleep(time.Second)
		w.Inject(etcdfake.Rule{Method: "Watch", Edit: func(_ etcdfake.Request, m etcdapi.Message) {
			if r, ok := m.(*pb.WatchResponse); ok {
				r.Events = nil
			}
		}})
		silenced(w)
		w.Inject(etcdfake.Rule{Method: "Txn", Match: writeOf("v"), Lose: true})
		ctx, cancel := context.WithTimeout(w.ctx, 50*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, w.held.Rewrite(ctx, []byte("v")), kv.ErrUnknown)
		w.Put(w.held.Key(), "foreign", w.lease.ID())
		time.Sleep(time.Minute)
		require.ErrorIs(t, w.held.Err(), queue.ErrKeyOverwritten)
		assert.NoError(t, w.lease.Err())
	})
}

// silenced makes all watches of the cluster deliver nothing more.
func silenced(w *writer) {
	w.Inject(etcdfake.Rule{Opening: true, Method: "Watch", Hang: true})
	for _, m := range w.Members() {
		m.Reset()
	}
}

// Renewals read the key at every point of a rewrite. None may take our put for another's.
func TestReadsThatRaceWithRewritesFindNothing(t *testing.T) {
	rewriting(t, func(w *writer) {
		jitter := func(n int) func() time.Duration {
			i := 0
			return func() time.Duration { i = (i*7 + n) % 13; return time.Duration(i) * time.Millisecond }
		}
		for i, m := range w.Members() {
			m.SetDelay(jitter(i+1), jitter(i+5))
		}
		stop := make(chan struct{})
		done := make(chan struct{})
		go func() { // ends with stop
			defer close(done)
			for {
				select {
				case <-stop:
					return
				default:
					if err := w.held.Confirm(w.ctx); err != nil {
						t.Errorf("confirm: %v", err)
						return
					}
				}
			}
		}()
		for i := range 300 {
			require.NoError(t, w.rewrite(string(rune('a'+i%26))))
		}
		close(stop)
		<-done
		require.NoError(t, w.held.Err())
		assert.Len(t, w.puts(), 301)
	})
}

func TestOverwrittenKeyLeavesTheQueueEvenIfItsSessionEnds(t *testing.T) {
	rewriting(t, func(w *writer) {
		time.Sleep(time.Second)
		w.Inject(etcdfake.Rule{Method: "Txn", Times: 3, Lose: true, Err: unavailable})
		w.Put(w.held.Key(), "foreign", 0)
		synctest.Wait()
		require.ErrorIs(t, w.held.Err(), queue.ErrKeyOverwritten)
		require.NoError(t, w.lease.Close(w.ctx))
		time.Sleep(5 * time.Second)
		assert.Nil(t, w.Get(w.held.Key()))
	})
}

func TestRewriteAfterTheEndSaysWhyAndSendsNothing(t *testing.T) {
	rewriting(t, func(w *writer) {
		require.NoError(t, w.held.Release(w.ctx, errDone))
		before := w.Counts()
		require.ErrorIs(t, w.rewrite("1"), errDone)
		assert.Zero(t, w.Counts().Since(before).Received["Txn"])
	})
}

func TestReleaseAfterAnUnknownRewriteLeavesNothingForALateCopy(t *testing.T) {
	rewriting(t, func(w *writer) {
		w.Inject(etcdfake.Rule{Method: "Txn", Match: writeOf("late"), Late: 10 * time.Second})
		ctx, cancel := context.WithTimeout(w.ctx, 50*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, w.held.Rewrite(ctx, []byte("late")), kv.ErrUnknown)
		require.NoError(t, w.held.Release(w.ctx, errDone))
		time.Sleep(time.Minute)
		assert.Nil(t, w.Get(w.held.Key()))
		assert.NotContains(t, w.puts(), "late")
	})
}

// A value whose outcome is unknown stays in doubt until the key's modification revision moves. A
// second call that is refused for certain proves nothing about the first call's copy, which may
// still arrive and is ours then.
func TestAValueInDoubtStaysSoWhenItsRepeatIsRefused(t *testing.T) {
	rewriting(t, func(w *writer) {
		time.Sleep(time.Second)
		w.Inject(etcdfake.Rule{Method: "Txn", Match: writeOf("v"), Times: 1, Late: 30 * time.Second})
		ctx, cancel := context.WithTimeout(w.ctx, 50*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, w.rewriteIn(ctx, "v"), kv.ErrUnknown)
		forbidden := w.Inject(etcdfake.Rule{Method: "Txn", Match: writeOf("v"), Lose: true, Err: status.Error(codes.PermissionDenied, "etcdserver: permission denied")})
		require.ErrorIs(t, w.rewrite("v"), kv.ErrUnknown, "the first copy may come yet")
		require.ErrorIs(t, w.rewrite("v"), kv.ErrUnknown)
		forbidden.Lift()
		other := w.Inject(etcdfake.Rule{Method: "Txn", Match: writeOf("other"), Lose: true, Err: status.Error(codes.PermissionDenied, "etcdserver: permission denied")})
		err := w.rewrite("other")
		require.Error(t, err)
		require.NotErrorIs(t, err, kv.ErrUnknown, "this value was never in doubt")
		other.Lift()
		time.Sleep(2 * time.Minute)
		require.NoError(t, w.held.Err(), "it was our own")
		assert.Equal(t, "v", w.value())
		require.NoError(t, w.rewrite("w"))
	})
}

func (w *writer) rewriteIn(ctx context.Context, value string) error {
	return w.held.Rewrite(ctx, []byte(value))
}
