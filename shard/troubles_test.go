package shard_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/shards"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
	"github.com/pawl-locks/pawl/shard"
)

// began starts k workers and lets them distribute the shards.
func (w *fixture) began(k int, opts shard.Options) {
	w.Helper()
	for range k {
		w.start(opts)
	}
	w.pass(4 * time.Second)
	w.shared()
}

// another is a worker that is not x.
func (w *fixture) another(x *worker) *worker {
	return w.all[slices.IndexFunc(w.all, func(y *worker) bool { return y != x && !y.gone })]
}

func TestAWorkerThatIsKilledIsReplacedAfterTheTTL(t *testing.T) {
	inBubble(t, 12, func(w *fixture) {
		w.began(3, shard.Options{})
		dead := w.another(w.planner())
		had, before := dead.owned(), w.total()
		dead.kill()
		w.pass(ttl + 2500*time.Millisecond) // the server deletes the lease up to half a second late
		w.shared()
		assert.Equal(w, len(had), w.total()-before, "what it had moves, and nothing else")
	})
}

// rule: SH2
func TestAWorkerThatIsCutOffLosesItsShardsFirst(t *testing.T) {
	inBubble(t, 6, func(w *fixture) {
		w.began(2, shard.Options{})
		x := w.all[0]
		had := x.owned()
		x.set(func() { x.ignores = true })
		x.net.set(true)
		w.pass(ttl + 3*time.Second)
		assert.Equal(w, had, x.owned(), "its work does not return")
		for i, h := range x.has {
			assert.ErrorIs(w, h.Err(), lock.ErrLost)
			assert.Contains(w, w.all[1].owned(), i, "the other has it")
		}
		x.net.set(false)
		w.pass(time.Minute)
		assert.Equal(w, had, w.all[1].owned(), "a shard whose work runs still is not taken again, and another is")
		x.set(func() { x.ignores = false; close(x.freed) })
		w.pass(2 * time.Minute)
		w.shared()
	})
}

func TestWithoutThePlannerWorkGoesOnAndTheNextOneBeginsAtWhatItFinds(t *testing.T) {
	for name, end := range map[string]func(*worker){
		"killed":  (*worker).kill,
		"leaves":  func(x *worker) { _ = x.leave() },
		"cut off": func(x *worker) { x.net.set(true); x.w.pass(ttl + time.Second); x.net.set(false) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 12, func(w *fixture) {
				w.began(3, shard.Options{})
				planner := w.planner()
				others := map[*worker][]int{}
				for _, x := range w.all {
					if x != planner {
						others[x] = x.owned()
					}
				}
				end(planner)
				w.pass(ttl + 5*time.Second)
				w.shared()
				w.pass(time.Minute)
				for x, had := range others {
					assert.Subset(w, x.owned(), had[:len(had)-boolInt(name == "cut off")], "it keeps what it had")
				}
				w.start(shard.Options{})
				w.pass(4 * time.Second)
				w.shared()
			})
		})
	}
}

func boolInt(b bool) int {
	if b {
		return 3
	}
	return 0
}

// Without a planner, shards without an owner are taken nevertheless.
// rule: SH6
func TestWithoutAnyPlannerShardsAreTakenInTime(t *testing.T) {
	inBubble(t, 12, func(w *fixture) {
		w.began(3, shard.Options{})
		w.f.Put(w.keys.Planner().Prefix+"foreign", "", 0) // a candidate that never plans
		w.planner().kill()
		w.pass(ttl + time.Second)
		w.pass(8 * ttl)
		assert.Equal(w, 12, w.loads()[0]+w.loads()[1], "%v", w.loads())
		require.True(w, w.f.Delete(w.keys.Planner().Prefix+"foreign"))
		w.pass(5 * time.Second)
		w.shared()
	})
}

// A plan for the others is at most five seconds late.
func TestAMemberThatFlapsHoldsNobodyUp(t *testing.T) {
	inBubble(t, 12, func(w *fixture) {
		w.began(3, shard.Options{})
		dead := w.another(w.planner())
		dead.kill()
		w.pass(ttl - time.Second)
		for i := range 16 {
			w.f.Put(w.keys.Member(12, 77), string(shards.Member{Weight: -1 - i}.Encode()), 0)
			w.pass(500 * time.Millisecond)
		}
		w.shared()
		assert.True(w, w.f.Delete(w.keys.Member(12, 77)))
	})
}

// rule: SH8
func TestAShardWhoseWorkFailsRunsElsewhere(t *testing.T) {
	inBubble(t, 6, func(w *fixture) {
		bad := w.start(shard.Options{}, func(x *worker) {
			x.fails = func(i int) error {
				if i == 3 {
					return errors.New("no")
				}
				return nil
			}
		})
		w.start(shard.Options{})
		w.pass(3 * time.Minute)
		w.shared()
		assert.NotContains(w, bad.owned(), 3)
		assert.Less(w, len(bad.kinds(shard.Failed)), 4)
	})
}

// Of two workers with a shard each, the one whose work failed does not take its shard again before
// the planner has given it to the other.
// rule: SH8
func TestAShardWhoseWorkFailsIsNotTakenAgainBeforeItMoves(t *testing.T) {
	inBubble(t, 2, func(w *fixture) {
		w.began(2, shard.Options{})
		w.f.Inject(etcdfake.Rule{Op: "write the member key", Delay: 5 * time.Millisecond}) // the planner learns of it later
		x := w.all[0]
		bad := x.owned()[0]
		x.set(func() { x.breaks = map[int]error{bad: errors.New("no")} })
		w.pass(5 * time.Second)
		w.shared()
		assert.Len(w, x.kinds(shard.Failed), 1)
		assert.Len(w, x.kinds(shard.Acquired), 2, "each of the two once")
		assert.Equal(w, []int{1 - bad}, x.owned())
	})
}

// The error that work returns after ErrMoved is reported with the end of the hold, unless it is the end
// of its context.
func TestWhatWorkReturnsAfterItsContextsEndIsReported(t *testing.T) {
	for _, err := range []error{nil, context.Canceled, shard.ErrMoved, errors.New("not saved")} {
		inBubble(t, 2, func(w *fixture) {
			x := w.start(shard.Options{}, func(x *worker) { x.saves = err })
			w.pass(3 * time.Second)
			w.start(shard.Options{})
			w.pass(3 * time.Second)
			w.shared()
			released := x.kinds(shard.Released)
			require.Len(w, released, 1)
			if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, shard.ErrMoved) {
				assert.NoError(w, released[0].Err)
			} else {
				assert.ErrorIs(w, released[0].Err, err)
			}
		})
	}
}

// However many workers leave at once, none waits for the TTL of the others.
// rule: SH5
func TestAllThatLeaveAtOnceWaitForNobody(t *testing.T) {
	inBubble(t, 60, func(w *fixture) {
		w.began(60, shard.Options{})
		for _, x := range w.all {
			x.cancel()
		}
		w.pass(3 * time.Second)
		for _, x := range w.all {
			select {
			case <-x.done:
			default:
				assert.Fail(w, "a worker has not left")
			}
			x.gone = true
		}
	})
}

// If work returns nil unasked, the worker gives the shard up for a while, which grows.
// rule: SH8
func TestWorkThatAlwaysReturnsIsCalledLessAndLessOften(t *testing.T) {
	inBubble(t, 1, func(w *fixture) {
		x := w.start(shard.Options{}, func(x *worker) { x.fails = func(int) error { return errors.New("no") } })
		w.pass(10 * time.Minute)
		failed := x.kinds(shard.Failed)
		assert.GreaterOrEqual(w, len(failed), 10)
		assert.LessOrEqual(w, len(failed), 20, "up to a minute apart")
		assert.EqualError(w, failed[0].Err, "no")
		assert.Equal(w, 0, failed[0].Shard)
	})
}

// rule: SH8
func TestAWorkerThatMayNotLockAShardLeavesItToOthers(t *testing.T) {
	inBubble(t, 6, func(w *fixture) {
		w.start(shard.Options{})
		w.start(shard.Options{})
		w.pass(4 * time.Second)
		w.shared()
		x, y := w.all[0], w.all[1]
		lease := x.lease()
		had := y.owned()[0]
		w.f.Inject(etcdfake.Rule{
			Op: "enqueue", Match: func(q etcdfake.Request) bool {
				return etcdfake.OnLease(lease)(q) && etcdfake.OnKey(w.keys.Queue(had).Prefix)(q)
			}, Err: status.Error(codes.PermissionDenied, "etcdserver: permission denied"),
		})
		w.f.Put(w.keys.Wish(lease), string(shards.SetOf(append(x.owned(), had)...).Encode()), lease)
		w.pass(2 * time.Minute)
		w.shared()
	})
}

// A worker whose Prepare never returns counts as full after a while. The shards in its wish go to
// others once it is known that it hangs.
// rule: SH3
func TestAWorkerThatDoesNotFollowItsWishCountsAsFull(t *testing.T) {
	inBubble(t, 6, func(w *fixture) {
		w.start(shard.Options{})
		w.start(shard.Options{})
		w.pass(4 * time.Second)
		w.shared()
		lease := int64(0x77) // its session lives, but no worker runs
		w.f.Put(w.keys.Member(6, lease), string(shards.Member{Weight: 1}.Encode()), 0)
		w.f.Put(w.keys.Wish(lease), "", 0)
		w.pass(2 * time.Second)
		assert.NotEmpty(w, w.f.Get(w.keys.Wish(lease)).Value)
		before := w.total()
		w.pass(ttl + 4*time.Second)
		assert.Empty(w, w.f.Get(w.keys.Wish(lease)).Value)
		w.shared()
		assert.LessOrEqual(w, w.total()-before, 2)
	})
}

// rule: SH5
func TestWorkThatIgnoresErrMovedKeepsItsShardUntilOverrun(t *testing.T) {
	for _, overrun := range []time.Duration{0, 20 * time.Second} {
		inBubble(t, 4, func(w *fixture) {
			x := w.start(shard.Options{Overrun: overrun})
			w.pass(3 * time.Second)
			x.set(func() { x.ignores = true })
			y := w.start(shard.Options{})
			w.pass(3 * time.Second)
			moving := x.kinds(shard.Moving)
			require.Len(w, moving, 2)
			h := x.has[moving[0].Shard]
			assert.NoError(w, h.Err())
			w.pass(18 * time.Second)
			if overrun == 0 {
				w.pass(10 * time.Minute)
				assert.NoError(w, h.Err())
				assert.Empty(w, y.owned())
				return
			}
			assert.ErrorIs(w, h.Err(), lock.ErrLost)
			assert.ErrorIs(w, h.Err(), shard.ErrMoved)
			assert.NotNil(w, w.f.Get(h.Key()), "its key stays for a margin")
			assert.Empty(w, y.owned())
			w.pass(4 * time.Second)
			assert.ElementsMatch(w, []int{moving[0].Shard, moving[1].Shard}, y.owned(), "those two are taken, and no other")
			assert.Len(w, x.owned(), 4)
		})
	}
}

// rule: SH7
func TestARunWithAnotherNumberOfShardsIsRefusedEachTime(t *testing.T) {
	inBubble(t, 6, func(w *fixture) {
		w.began(2, shard.Options{})
		rev := w.f.Revision()
		ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
		defer cancel()
		for _, n := range []int{5, 7, 60} {
			err := shard.Run(ctx, w.client(w.all[0].net.dial(w.f)), "jobs", n, shard.Options{}, w.all[0].work)
			assert.ErrorIs(w, err, shard.ErrCount)
			assert.ErrorContains(w, err, "6 instead of")
		}
		assert.Empty(w, w.writes(rev), "nobody else notices")
		w.pass(time.Minute)
		w.shared()
	})
}

// Each of eight workers is replaced by a new one, as in a rolling restart.
func TestARollingRestartMovesLittle(t *testing.T) {
	inBubble(t, 64, func(w *fixture) {
		w.began(8, shard.Options{})
		before := w.total()
		for _, x := range slices.Clone(w.all) {
			w.start(shard.Options{})
			w.pass(5 * time.Second)
			w.shared()
			require.Error(w, x.leave())
			w.pass(5 * time.Second)
			w.shared()
		}
		assert.LessOrEqual(w, w.total()-before, 8*(7+8), "at most 7 for each join and 8 for each leave")
		for i := range w.n {
			assert.Less(w, w.gap(i), 100*time.Millisecond, "shard %d has nobody for so long", i)
		}
	})
}

// gap is the longest time for which a shard that had an owner had none.
func (w *fixture) gap(i int) (longest time.Duration) {
	prefix := w.keys.Queue(i).Prefix
	n, had := 0, false
	var since time.Time
	for _, c := range w.f.History() {
		switch {
		case !strings.HasPrefix(c.Key, prefix):
		case c.Deleted:
			if n--; n == 0 {
				since = c.At
			}
		case c.Version == 1:
			if n++; n == 1 && had {
				longest = max(longest, c.At.Sub(since))
			}
			had = true
		}
	}
	return longest
}

// rule: SH5
func TestLeavingHandsOverAndWaitsForNobodyForLongerThanATTL(t *testing.T) {
	inBubble(t, 4, func(w *fixture) {
		x := w.start(shard.Options{})
		w.pass(3 * time.Second)
		began := time.Now()
		x.cancel()
		w.f.Put(w.keys.Member(4, 0x77), string(shards.Member{Weight: 1}.Encode()), 0) // a worker that never comes
		require.Error(w, x.leave())
		assert.InDelta(w, ttl+time.Second, time.Since(began), float64(time.Second), "nobody comes for its shards")
		require.True(w, w.f.Delete(w.keys.Member(4, 0x77)))
		assert.Empty(w, w.f.Keys(w.keys.Prefix))
		assert.Empty(w, w.f.Leases())

		x, z := w.start(shard.Options{}), w.start(shard.Options{})
		w.pass(4 * time.Second)
		began = time.Now()
		x.cancel()
		require.Error(w, z.leave())
		require.Error(w, x.leave())
		assert.Less(w, time.Since(began), 4*time.Second, "nobody is left who could come")

		w.began(1, shard.Options{})
		y := w.start(shard.Options{})
		w.pass(4 * time.Second)
		began = time.Now()
		require.Error(w, w.all[3].leave())
		assert.Less(w, time.Since(began), 3*time.Second)
		w.pass(time.Second)
		assert.Len(w, y.owned(), 4)
	})
}

// rule: SH5
func TestShardsThatAreTakenOneAfterAnotherLeaveNoTrace(t *testing.T) {
	inBubble(t, 4, func(w *fixture) {
		x := w.start(shard.Options{Overrun: 20 * time.Second})
		w.pass(3 * time.Second)
		x.set(func() { x.ignores = true })
		w.start(shard.Options{})
		w.pass(40 * time.Second)
		require.Len(w, x.kinds(shard.Lost), 2)
		x.set(func() { x.ignores = false; close(x.freed) })
		w.pass(40 * time.Second)
		w.shared()
		lease := x.lease()
		require.Error(w, x.leave())
		w.pass(time.Second)
		assert.Nil(w, w.f.Get(w.keys.Member(4, lease)), "its lease is revoked at once")
	})
}

// Taking a shard from one work does not let others have sooner what other works of the session rely on.
func TestALeaseIsNotRevokedWhileOthersThanTheTakenWork(t *testing.T) {
	inBubble(t, 4, func(w *fixture) {
		x := w.start(shard.Options{Overrun: 5 * time.Second})
		w.pass(3 * time.Second)
		x.set(func() { x.ignores = true })
		w.start(shard.Options{})
		w.pass(8 * time.Second)
		taken := x.kinds(shard.Lost)
		require.Len(w, taken, 2)
		w.f.Delete(w.f.Keys("//pawl/" + fmt.Sprintf("%x", x.lease()))[0]) // its session ends
		w.pass(3 * time.Second)
		for i, h := range x.has {
			assert.ErrorIs(w, h.Err(), lock.ErrLost)
			if i != taken[0].Shard && i != taken[1].Shard {
				assert.NotNil(w, w.f.Get(h.Key()), "%d", i)
			}
		}
	})
}

// rule: SH2
func TestAPrepareThatHangsHoldsUpItsShardOnly(t *testing.T) {
	inBubble(t, 6, func(w *fixture) {
		hang := make(chan struct{})
		var hung atomic.Bool
		x := w.start(shard.Options{Prepare: func(_ context.Context, i int) error {
			if i == 3 && hung.CompareAndSwap(false, true) {
				<-hang
			}
			return nil
		}})
		w.pass(4 * time.Second)
		assert.Equal(w, []int{0, 1, 2, 4, 5}, x.owned())
		w.f.Revoke(x.lease())
		w.pass(10 * time.Second)
		assert.Equal(w, []int{0, 1, 2, 4, 5}, x.owned(), "on a new session")
		y := w.start(shard.Options{})
		w.pass(10 * time.Second)
		assert.Contains(w, y.owned(), 3)
		w.shared()
		close(hang)
		w.pass(time.Minute)
		w.shared()
	})
}

// This includes a shard that is not in the wish, and that the worker takes because it has no owner.
func TestLeavingEndsAPrepare(t *testing.T) {
	for _, planned := range []bool{true, false} {
		inBubble(t, 2, func(w *fixture) {
			if !planned {
				w.f.Put(w.keys.Planner().Prefix+"foreign", "", 0) // a candidate that never plans
			}
			var began atomic.Int32
			x := w.start(shard.Options{Prepare: func(ctx context.Context, _ int) error {
				began.Add(1)
				<-ctx.Done()
				return ctx.Err()
			}})
			w.pass(6 * ttl)
			require.EqualValues(w, 2, began.Load())
			x.cancel()
			w.pass(3 * time.Second)
			select {
			case <-x.done:
			default:
				require.Fail(w, "Run waits for its Prepare")
			}
		})
	}
}

// Whatever the error of Prepare, it is called less and less often.
// rule: SH8
func TestAPrepareThatFailsIsNotRepeatedAtOnce(t *testing.T) {
	for _, err := range []error{errors.New("no"), lock.ErrBusy, context.Canceled} {
		inBubble(t, 1, func(w *fixture) {
			calls := 0
			x := w.start(shard.Options{Prepare: func(context.Context, int) error {
				if calls++; calls > 100 {
					return nil
				}
				return err
			}})
			w.pass(time.Minute)
			assert.InDelta(w, 6, calls, 2)
			assert.ErrorIs(w, x.kinds(shard.Failed)[0].Err, err)
		})
	}
}

// An owner that ignores ErrMoved holds up its shard, and no other.
func TestAHandoverThatDoesNotEndHoldsNoOtherUp(t *testing.T) {
	for i := range 2 {
		inBubble(t, 6, func(w *fixture) {
			w.began(2, shard.Options{})
			w.all[i].set(func() { w.all[i].ignores = true })
			z := w.start(shard.Options{Moves: 1})
			w.pass(2 * ttl)
			assert.Len(w, z.owned(), 1, "%d", i)
			w.all[i].set(func() { w.all[i].ignores = false; close(w.all[i].freed) })
			w.pass(time.Second)
			w.shared()
		})
	}
}

// Even work that has released its shard learns of the end of the session.
func TestWorkThatReleasedItsShardEndsWithTheSession(t *testing.T) {
	inBubble(t, 1, func(w *fixture) {
		x := w.start(shard.Options{})
		w.pass(3 * time.Second)
		h := x.has[0]
		require.NoError(w, h.Release(w.Context()))
		w.f.Revoke(h.Session().ID())
		w.pass(10 * time.Second)
		w.shared()
		assert.NotEqual(w, h, x.has[0])
		assert.Len(w, x.kinds(shard.Acquired), 2)
		x.cancel()
		w.pass(3 * time.Second)
		select {
		case <-x.done:
		default:
			assert.Fail(w, "Run waits for it")
			x.set(func() { x.breaks = map[int]error{0: lock.ErrLost} })
		}
	})
}

// Run ends if another cluster answers, or the same with an older state.
func TestRunEndsWhereTheClusterHasChanged(t *testing.T) {
	inBubble(t, 3, func(w *fixture) {
		before := w.f.Snapshot()
		x := w.start(shard.Options{})
		w.pass(3 * time.Second)
		w.f.Restore(before, etcdfake.RestoreOptions{})
		w.pass(time.Minute)
		x.gone = true
		select {
		case <-x.done:
			assert.ErrorIs(w, x.err, pawl.ErrClusterChanged)
		default:
			assert.Fail(w, "it goes on")
		}
	})
}

// The key of a shard that was taken from work stays for the lock-delay too.
func TestAShardIsTakenAfterTheLockDelay(t *testing.T) {
	inBubble(t, 4, func(w *fixture) {
		o := shard.Options{Overrun: 5 * time.Second, Session: lease.Options{TTL: ttl, LockDelay: 7 * time.Second}}
		x := w.start(o)
		w.pass(3 * time.Second)
		x.set(func() { x.ignores = true })
		y := w.start(o)
		w.pass(9 * time.Second)
		assert.Len(w, x.kinds(shard.Lost), 2)
		w.pass(4 * time.Second)
		assert.Empty(w, y.owned())
		w.pass(6 * time.Second)
		assert.Len(w, y.owned(), 2)
		x.set(func() { x.ignores = false; close(x.freed) })
		w.pass(30 * time.Second)
		w.shared()
	})
}
