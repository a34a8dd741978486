package shard_test

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/shards"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/lock"
	"github.com/pawl-locks/pawl/shard"
)

// SH3: each wish is guarded by the planner's term and by its own key, and stays on its lease.
// rule: SH3
func TestEachWishIsGuardedByTheTermAndByItsKey(t *testing.T) {
	inBubble(t, 6, func(w *fixture) {
		seen := 0
		w.f.Inject(etcdfake.Rule{Op: "write a wish", Match: func(q etcdfake.Request) bool {
			r := q.Message.(*pb.TxnRequest)
			seen++
			put := r.Success[0].GetRequestPut()
			assert.Len(w, r.Success, 1)
			assert.True(w, put.IgnoreLease)
			assert.Len(w, r.Compare, 2)
			assert.True(w, strings.HasPrefix(string(r.Compare[0].Key), w.keys.Planner().Prefix))
			assert.Equal(w, w.f.Get(string(r.Compare[0].Key)).CreateRevision, r.Compare[0].GetCreateRevision())
			assert.Equal(w, put.Key, r.Compare[1].Key)
			assert.Positive(w, r.Compare[1].GetModRevision())
			return false
		}})
		w.began(3, shard.Options{})
		assert.Equal(w, 3, seen)
	})
}

// SH4: a shard whose work has returned is kept if nobody waits for it any more.
// rule: SH4
func TestAShardThatNobodyWaitsForAnyMoreIsKept(t *testing.T) {
	inBubble(t, 1, func(w *fixture) {
		x := w.start(shard.Options{})
		w.pass(3 * time.Second)
		h := x.has[0]
		y := w.start(shard.Options{Weight: -1})
		w.pass(3 * time.Second)
		x.set(func() { x.slow = 500 * time.Millisecond })
		var lease int64
		for _, key := range w.f.Keys(w.keys.Prefix + "w/") {
			if l := w.keys.Parse(key).Lease; l != x.lease() {
				lease = l
			}
		}
		w.f.Put(w.keys.Wish(lease), string(shards.SetOf(0).Encode()), lease)
		w.pass(100 * time.Millisecond)
		require.Len(w, w.f.Keys(w.keys.Queue(0).Prefix), 2, "it waits")
		w.f.Put(w.keys.Wish(x.lease()), "", x.lease())
		w.pass(100 * time.Millisecond)
		require.Len(w, x.kinds(shard.Moving), 1)
		w.f.Put(w.keys.Wish(lease), "", lease) // so that it leaves the queue
		w.pass(time.Second)
		assert.Same(w, h, x.has[0], "the same hold")
		assert.Empty(w, x.kinds(shard.Released))
		assert.Equal(w, 2, w.moves[0], "and work was called again")
		assert.Empty(w, y.kinds(shard.Acquired))
		w.pass(time.Minute)
		w.all = w.all[:1]
		w.shared()
		w.all = append(w.all, y)
	})
}

// SH4: a worker does not count as waiting if it waited when the shard was last on offer, could not get
// it because others moved first, and is gone.
func TestAShardIsNotGivenUpToWhoHasGone(t *testing.T) {
	inBubble(t, 2, func(w *fixture) {
		x := w.start(shard.Options{Moves: 1}, func(x *worker) { x.slow = 3 * time.Second })
		w.pass(6 * time.Second)
		require.Len(w, x.owned(), 2)
		w.f.Inject(etcdfake.Rule{Op: "write a wish", Lose: true})
		wish := func(s shards.Set) { w.f.Put(w.keys.Wish(x.lease()), string(s.Encode()), x.lease()) }
		for i := range 2 {
			w.f.Put(w.keys.Queue(i).Prefix+"foreign", "", 0)
		}
		wish(nil)
		w.pass(time.Second)
		require.Len(w, x.kinds(shard.Moving), 1)
		wish(shards.SetOf(0, 1))
		w.pass(time.Second)
		for i := range 2 {
			w.f.Delete(w.keys.Queue(i).Prefix + "foreign")
		}
		w.pass(3 * time.Second)
		wish(nil)
		w.pass(3 * time.Second)
		assert.Len(w, x.kinds(shard.Moving), 1)
	})
}

// SH4: a holder gives a shard up only to a worker that waits.
// rule: SH4
func TestAShardThatIsNotWishedIsHeldUntilSomebodyWaits(t *testing.T) {
	inBubble(t, 6, func(w *fixture) {
		w.began(2, shard.Options{})
		w.f.Inject(etcdfake.Rule{Op: "write a wish", Lose: true})
		for _, x := range w.all {
			w.f.Put(w.keys.Wish(x.lease()), "", x.lease())
		}
		before := w.total()
		w.pass(time.Minute)
		assert.Equal(w, before, w.total())
		w.shared()
	})
}

// SH5: a planner that leaves resigns first, however long its work takes.
// rule: SH5
func TestAPlannerThatLeavesResignsFirst(t *testing.T) {
	inBubble(t, 6, func(w *fixture) {
		w.began(3, shard.Options{})
		x := w.planner()
		x.set(func() { x.ignores = true })
		x.cancel()
		w.pass(3 * time.Second)
		assert.NotSame(w, x, w.planner())
		waits := 0
		for i := range w.n {
			waits += len(w.f.Keys(w.keys.Queue(i).Prefix)) - 1
		}
		assert.Equal(w, 2, waits, "others wait for what it has")
		x.set(func() { x.ignores = false; close(x.freed) })
		<-x.done
		x.gone = true
		w.pass(time.Second)
		w.shared()
	})
}

// Nothing that would let others have a shard sooner is done while its work runs.
// rule: SH5
func TestALeaseIsNotRevokedWhileWorkRuns(t *testing.T) {
	inBubble(t, 2, func(w *fixture) {
		x := w.start(shard.Options{}, func(x *worker) { x.ignores = true })
		w.pass(3 * time.Second)
		h := x.has[0]
		closed := make(chan error)
		go func() { closed <- x.c.Close() }()
		w.pass(time.Second)
		assert.ErrorIs(w, h.Err(), lock.ErrLost)
		assert.NotNil(w, w.f.Get(h.Key()))
		assert.Error(w, <-closed, "it is left to expire")
		w.pass(ttl)
		assert.Nil(w, w.f.Get(h.Key()))
	})
}

// A Release in work has the effect of its return.
func TestWorkMayReleaseItsShardItself(t *testing.T) {
	inBubble(t, 1, func(w *fixture) {
		calls := 0
		c := w.client(w.f.Dial)
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		err := shard.Run(ctx, c, "jobs", 1, shard.Options{}, func(ctx context.Context, h *shard.Held) error {
			calls++
			require.NoError(w, h.Err())
			require.NoError(w, h.Release(ctx))
			time.Sleep(time.Second)
			return nil
		})
		assert.ErrorIs(w, err, context.DeadlineExceeded)
		assert.Greater(w, calls, 2)
		assert.Less(w, calls, 9)
		assert.Empty(w, w.f.Keys(w.keys.Prefix))
	})
}

// SH8: a work or a Prepare that ends its goroutine, as a failing test does, counts as failed.
func TestWorkThatEndsItsGoroutineHasFailed(t *testing.T) {
	for _, prepares := range []bool{true, false} {
		inBubble(t, 1, func(w *fixture) {
			var failed []error
			opts := shard.Options{Notify: func(ev shard.Event) {
				if ev.Kind == shard.Failed {
					failed = append(failed, ev.Err)
				}
			}}
			if prepares {
				opts.Prepare = func(context.Context, int) error { runtime.Goexit(); return nil }
			}
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			err := shard.Run(ctx, w.client(w.f.Dial), "jobs", 1, opts, func(context.Context, *shard.Held) error { runtime.Goexit(); return nil })
			assert.ErrorIs(w, err, context.DeadlineExceeded)
			require.NotEmpty(w, failed)
			assert.ErrorContains(w, failed[0], "instead of returning")
			assert.Less(w, len(failed), 6)
			w.pass(time.Second)
			assert.Empty(w, w.f.Keys(w.keys.Prefix))
		})
	}
}

// ErrMoved means that the shard is still held, so it is not sent after the end of a session whose loop
// has not yet compared the clock.
func TestWorkIsNotToldThatAShardMovesThatIsLost(t *testing.T) {
	inBubble(t, 1, func(w *fixture) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		done, began := make(chan error), make(chan *shard.Held)
		c := w.client(w.f.Dial)
		var cause, held error
		go func() { // ends with ctx
			done <- shard.Run(ctx, c, "jobs", 1, shard.Options{}, func(ctx context.Context, h *shard.Held) error {
				began <- h
				<-ctx.Done()
				cause, held = context.Cause(ctx), h.Err()
				cancel()
				return nil
			})
		}()
		h := <-began
		w.pass(time.Millisecond)
		w.f.Put(w.keys.Queue(0).Prefix+"foreign", "", 0)
		w.f.Put(w.keys.Wish(h.Session().ID()), "", h.Session().ID())
		clock.SetWallJump(time.Minute)
		defer clock.SetWallJump(0)
		assert.ErrorIs(w, <-done, context.Canceled)
		assert.ErrorIs(w, held, lock.ErrLost)
		assert.ErrorIs(w, cause, lock.ErrLost)
		assert.NotErrorIs(w, cause, shard.ErrMoved)
	})
}

// offered has x offer shard 0: no wish has it any more.
func (w *fixture) offered(x *worker) {
	w.pass(3 * time.Second)
	require.Equal(w, []int{0}, x.owned())
	w.f.Inject(etcdfake.Rule{Op: "write a wish", Lose: true})
	w.f.Put(w.keys.Wish(x.lease()), "", x.lease())
	w.pass(time.Second)
}

// A key of the worker's own, as a cleanup leaves one for a moment, is nobody who waits for a shard.
// rule: SH4
func TestAWorkersOwnKeyIsNoWaiter(t *testing.T) {
	inBubble(t, 1, func(w *fixture) {
		x := w.start(shard.Options{})
		w.offered(x)
		own := keys.QueueKey{Lease: x.lease(), N: 99}.In(w.keys.Queue(0).Prefix)
		w.f.Put(own, "", x.lease())
		w.pass(time.Second)
		assert.Empty(w, x.kinds(shard.Moving))
		w.f.Delete(own)
	})
}

// A shard whose key somebody deletes as it is released is lost. It is not reported as released.
func TestAReleaseThatFindsTheShardLostReportsTheLoss(t *testing.T) {
	inBubble(t, 1, func(w *fixture) {
		x := w.start(shard.Options{})
		w.offered(x)
		foreign, held := w.keys.Queue(0).Prefix+"foreign", x.has[0].Key()
		for i := range w.f.Members() {
			w.f.Member(i).EditWatches(etcdfake.SwallowDeletes(held))
		}
		w.f.Inject(etcdfake.Rule{Op: "release", Match: func(etcdfake.Request) bool { w.f.Delete(held); return false }})
		w.f.Put(foreign, "", 0)
		w.pass(3 * time.Second)
		assert.Len(w, x.kinds(shard.Moving), 1)
		assert.Len(w, x.kinds(shard.Lost), 1)
		assert.Empty(w, x.kinds(shard.Released))
		w.f.LiftAll()
		w.f.Delete(foreign)
	})
}
