package shard_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawl-locks/pawl/internal/inspect"
	"github.com/pawl-locks/pawl/internal/shards"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/internal/txn"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
	"github.com/pawl-locks/pawl/shard"
)

// Only the waiters change, and the wishes converge.
// rule: SH4
func TestAbsurdWishesDoNoHarm(t *testing.T) {
	inBubble(t, 12, func(w *fixture) {
		w.began(3, shard.Options{})
		all := shards.SetOf(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11).Encode()
		for _, wish := range [][]byte{all, nil, []byte("rubbish"), []byte("=0-99999")} {
			for _, x := range w.all {
				w.f.Put(w.keys.Wish(x.lease()), string(wish), x.lease())
			}
			w.pass(5 * time.Second)
			w.shared()
		}
	})
}

// rule: SH3
func TestAWishThatIsLostOrLateIsMadeGood(t *testing.T) {
	for name, rule := range map[string]etcdfake.Rule{
		"lost":            {Lose: true, Times: 3},
		"answer lost":     {Hang: true, Times: 3},
		"refused":         {Forge: nil, Err: status.Error(codes.Unavailable, "etcdserver: request timed out"), Times: 3},
		"applied again":   {Again: 30 * time.Second, Times: 3},
		"applied late":    {Late: 20 * time.Second, Err: status.Error(codes.Unavailable, "etcdserver: request timed out"), Times: 3},
		"arrives later":   {Delay: 2 * time.Second, Times: 3},
		"answered later ": {HoldAnswer: 2 * time.Second, Times: 3},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 12, func(w *fixture) {
				w.began(3, shard.Options{})
				rule.Op = "write a wish"
				fault := w.f.Inject(rule)
				w.start(shard.Options{})
				w.pass(45 * time.Second)
				assert.Positive(w, fault.Hits())
				w.shared()
				assert.Equal(w, 15, w.total(), "no more moves than without")
			})
		})
	}
}

// rule: SH2
func TestWhatAnOperatorDeletesIsPutAgain(t *testing.T) {
	inBubble(t, 6, func(w *fixture) {
		w.began(2, shard.Options{})
		for _, x := range w.all {
			own := x.owned()[0]
			for _, key := range []string{
				x.has[own].Key(), w.keys.Member(6, x.lease()), w.keys.Wish(x.lease()), w.f.Keys(w.keys.Planner().Prefix)[0],
			} {
				require.True(w, w.f.Delete(key), key)
				w.pass(5 * time.Second)
				w.shared()
				assert.NotNil(w, w.f.Get(w.keys.Member(6, x.lease())))
				assert.NotNil(w, w.f.Get(w.keys.Wish(x.lease())))
				assert.Len(w, w.f.Keys(w.keys.Planner().Prefix), 2)
			}
			lost := x.kinds(shard.Lost)
			require.Len(w, lost, 1)
			assert.Equal(w, own, lost[0].Shard)
			assert.ErrorIs(w, lost[0].Err, lock.ErrKeyDeleted)
		}
	})
}

// A key that an operator overwrites, on the worker's lease or on none, holds nobody up. When all
// workers have left, nothing is left.
// rule: SH2
func TestWhatAnOperatorOverwritesIsMadeGood(t *testing.T) {
	for what, lease := range map[string]func(x *worker) int64{"its lease": (*worker).lease, "no lease": func(*worker) int64 { return 0 }} {
		t.Run(what, func(t *testing.T) {
			inBubble(t, 6, func(w *fixture) {
				w.began(2, shard.Options{})
				for _, x := range w.all {
					own := x.owned()[0]
					for _, key := range []string{
						x.has[own].Key(), w.keys.Member(6, x.lease()), w.keys.Wish(x.lease()), w.f.Keys(w.keys.Planner().Prefix)[0], w.f.Keys(w.keys.Planner().Prefix)[1],
					} {
						w.f.Put(key, "somebody else's", lease(x))
						w.pass(2 * ttl)
						w.shared()
						assert.Len(w, w.f.Keys(w.keys.Planner().Prefix), 2)
						_ = w.planner()
					}
					lost := x.kinds(shard.Lost)
					require.Len(w, lost, 1)
					assert.ErrorIs(w, lost[0].Err, lock.ErrKeyOverwritten)
				}
				w.start(shard.Options{})
				w.pass(5 * time.Second)
				w.shared() // they still follow a planner
				for _, x := range w.all {
					x.cancel()
				}
				for _, x := range w.all {
					require.Error(w, x.leave())
				}
				w.pass(time.Second)
				assert.Empty(w, w.f.Keys(w.keys.Prefix))
				assert.Empty(w, w.f.Leases())
			})
		})
	}
}

// A write that is refused because the session has ended is not repeated at once until the worker knows
// of the end.
func TestAWriteThatIsRefusedIsNotRepeatedAtOnce(t *testing.T) {
	inBubble(t, 2, func(w *fixture) {
		prepare := func(ctx context.Context, _ int) error { <-ctx.Done(); return nil }
		x := w.start(shard.Options{Prepare: prepare, Session: lease.Options{TTL: 2 * ttl}})
		w.pass(1200 * time.Millisecond)
		fault := w.f.Inject(etcdfake.Rule{Op: "write the member key", HoldAnswer: time.Millisecond, Match: func(etcdfake.Request) bool {
			if leases := w.f.Leases(); len(leases) == 1 {
				w.f.Revoke(leases[0].ID)
			}
			return true
		}})
		w.f.Inject(etcdfake.Rule{Method: "Watch", Opening: true, Err: status.Error(codes.Unavailable, "no")})
		for i := range w.f.Members() {
			w.f.Member(i).EndStreams("Watch", status.Error(codes.Unavailable, "gone"))
		}
		for len(x.kinds(shard.Retrying)) == 0 {
			w.pass(100 * time.Millisecond)
		}
		assert.Positive(w, fault.Hits())
		assert.Less(w, fault.Hits(), 10)
	})
}

// A member key with the same value on no lease would outlive its worker, and get shards forever.
// rule: SH2
func TestAMemberKeyThatIsOnNoLeaseIsPutOnItAgain(t *testing.T) {
	inBubble(t, 4, func(w *fixture) {
		w.began(2, shard.Options{})
		x := w.all[0]
		key, lease := w.keys.Member(4, x.lease()), x.lease()
		w.f.Put(key, string(w.f.Get(key).Value), 0)
		w.pass(2 * ttl)
		assert.Equal(w, lease, w.f.Get(key).Lease)
		require.Error(w, x.leave())
		w.pass(time.Second)
		assert.Nil(w, w.f.Get(key))
	})
}

// If somebody deletes a worker's member key, and others join with another number of shards, the worker
// does not put its key again, and ends.
// rule: SH7
func TestADeletedMemberKeyIsNotPutBesideOthersOfAnotherNumber(t *testing.T) {
	inBubble(t, 4, func(w *fixture) {
		w.began(1, shard.Options{})
		x := w.all[0]
		key, other := w.keys.Member(4, x.lease()), w.keys.Member(5, 77)
		refused := w.f.Inject(etcdfake.Rule{Op: "write the member key", Lose: true}) // until others have joined
		w.f.Delete(key)
		w.pass(time.Millisecond)
		w.f.Put(other, "{}", 0)
		refused.Lift()
		w.pass(time.Minute)
		x.gone = true
		select {
		case <-x.done:
			assert.ErrorIs(w, x.err, shard.ErrCount)
		default:
			assert.Fail(w, "it goes on")
		}
		assert.Nil(w, w.f.Get(key))
		assert.NotNil(w, w.f.Get(other))
	})
}

// A worker that retries its failed writes rarely nevertheless reports at once that it leaves.
// rule: SH5
func TestAWorkerThatLeavesAfterAFullDiskHandsOver(t *testing.T) {
	for i := range 2 {
		inBubble(t, 4, func(w *fixture) {
			w.began(2, shard.Options{})
			x := w.all[i]
			own := x.owned()
			w.f.SetNoSpace(true)
			x.set(func() { x.fails = func(int) error { return errors.New("no") } })
			w.f.Delete(x.has[own[0]].Key())
			w.pass(2 * time.Minute)
			x.set(func() { x.fails = nil })
			w.f.SetNoSpace(false)
			w.pass(100 * time.Millisecond)
			w.start(shard.Options{})
			began := time.Now()
			require.Error(w, x.leave())
			assert.Less(w, time.Since(began), 3*time.Second, "%d", i)
			w.pass(2 * time.Minute)
			w.shared()
			assert.Less(w, w.gap(own[1]), 100*time.Millisecond)
		})
	}
}

// This includes a key that is overwritten before the worker knows that it has it.
func TestWhatIsOverwrittenAsItIsAcquiredIsMadeGood(t *testing.T) {
	inBubble(t, 2, func(w *fixture) {
		overwritten := false
		w.start(shard.Options{Notify: func(ev shard.Event) {
			if ev.Kind == shard.Acquired && !overwritten {
				overwritten = true
				time.Sleep(time.Second)
				w.f.Put(w.f.Keys(w.keys.Queue(1 - ev.Shard).Prefix)[0], "somebody else's", 0)
				time.Sleep(time.Second)
			}
		}})
		w.pass(10 * time.Second)
		w.shared()
	})
}

func TestOnAFullDiskShardsStayAndAReleaseWorks(t *testing.T) {
	inBubble(t, 6, func(w *fixture) {
		w.began(3, shard.Options{})
		before := w.total()
		w.f.SetNoSpace(true)
		w.pass(20 * time.Second)
		assert.Equal(w, before, w.total())
		w.shared()
		leaves := w.another(w.planner())
		require.Error(w, leaves.leave())
		w.pass(40 * time.Second)
		w.f.SetNoSpace(false)
		w.pass(2 * time.Minute)
		w.shared()
	})
}

// A worker that leaves while the disk is full deletes its member key. A copy of the deletion that
// arrives when the disk has space, and the key exists again, is refused.
// rule: SH5
func TestALateDeletionOfAMemberKeyIsRefused(t *testing.T) {
	inBubble(t, 6, func(w *fixture) {
		w.began(2, shard.Options{})
		x := w.another(w.planner())
		x.set(func() { x.ignores = true }) // so that it stays a while
		key := w.keys.Member(6, x.lease())
		late := w.f.Inject(etcdfake.Rule{Op: "delete the member key", Late: 8 * time.Second,
			Err: rpctypes.ErrGRPCPermissionDenied})
		w.f.SetNoSpace(true)
		x.cancel()
		w.pass(time.Second / 2)
		require.Positive(w, late.Hits())
		late.Lift()
		w.f.SetNoSpace(false)
		w.pass(5 * time.Second)
		again := w.f.Get(key)
		require.NotNil(w, again)
		says, err := shards.DecodeMember(6, again.Value)
		require.NoError(w, err)
		require.True(w, says.Leaving, "it was written with the disk's space")
		w.pass(5 * time.Second)
		assert.Equal(w, again, w.f.Get(key), "it is the same still")
		x.set(func() { x.ignores = false; close(x.freed) })
		<-x.done
		x.gone = true
		w.pass(time.Second)
		w.shared()
	})
}

// The planner's counts find what its watch does not show of members, although the watch continues.
// rule: SH3
func TestAMemberThatAWatchLostGetsItsShards(t *testing.T) {
	die := func(w *fixture) { w.another(w.planner()).kill(); w.pass(ttl + time.Second) }
	join := func(w *fixture) { w.start(shard.Options{}) }
	for name, c := range map[string]struct{ before, change func(w *fixture) }{
		"joined": {change: join},
		"died":   {change: die},
		"joined before the first count": {
			before: func(w *fixture) { w.planner().kill(); w.pass(ttl + 2*time.Second) },
			change: join,
		},
		"left, as another joined": {
			before: func(w *fixture) {
				x := w.another(w.planner())
				require.NoError(w, inspect.Drain(w.Context(), x.c, "jobs", x.lease(), true)) // so that it leaves at once
				w.pass(5 * time.Second)
				require.Empty(w, x.owned())
			},
			change: func(w *fixture) {
				idle := w.all[slices.IndexFunc(w.all, func(x *worker) bool { return len(x.owned()) == 0 })]
				assert.ErrorIs(w, idle.leave(), context.Canceled)
				join(w)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 6, func(w *fixture) {
				w.began(3, shard.Options{})
				for _, key := range []string{"77", "78"} { // foreign keys, which are no members
					w.f.Put(w.keys.Prefix+"m/6/"+key, "no member", 0)
				}
				w.pass(5 * ttl)
				if c.before != nil {
					c.before(w)
				}
				w.silent(c.change)
				w.pass(4 * ttl)
				w.shared()
				reads := w.counter()
				w.pass(10 * ttl)
				ops, _ := reads.take()
				assert.LessOrEqual(w, ops[lists], 10, "it is read again once, and each worker lists now and then")
			})
		})
	}
}

func TestADrainThatAWatchLostEmptiesItsWorker(t *testing.T) {
	inBubble(t, 6, func(w *fixture) {
		w.began(3, shard.Options{})
		w.pass(5 * ttl)
		x := w.another(w.planner())
		w.silent(func(w *fixture) { require.NoError(w, inspect.Drain(w.Context(), x.c, "jobs", x.lease(), true)) })
		w.pass(4 * ttl)
		assert.Empty(w, x.owned())
		assert.ElementsMatch(w, []int{0, 3, 3}, w.loads())
	})
}

func TestAWishThatAWatchLostIsPutRight(t *testing.T) {
	inBubble(t, 6, func(w *fixture) {
		w.began(3, shard.Options{})
		w.pass(5 * ttl)
		x := w.another(w.planner())
		key := w.keys.Wish(x.lease())
		before := w.f.Get(key).Value
		w.silent(func(w *fixture) { w.f.Put(key, "", x.lease()) })
		w.pass(4 * ttl)
		assert.Equal(w, before, w.f.Get(key).Value)
		w.shared()
	})
}

// It may be behind at each count, but it never stands still.
func TestAWatchThatIsBehindHasLostNothing(t *testing.T) {
	inBubble(t, 6, func(w *fixture) {
		w.began(2, shard.Options{})
		for i := range w.f.Members() {
			w.f.Member(i).EditWatches(func(r *pb.WatchResponse) []*pb.WatchResponse {
				time.Sleep(300 * time.Millisecond)
				return []*pb.WatchResponse{r}
			})
		}
		reads := w.counter()
		for i := range 2_000 {
			w.f.Put(w.keys.Member(6, 0x78), fmt.Sprintf(`{"weight":-1,"x":%d}`, i), 0)
			w.pass(100 * time.Millisecond)
		}
		ops, _ := reads.take()
		assert.LessOrEqual(w, ops[lists], 12, "each worker lists now and then")
	})
}

// silent makes all members' watches deliver nothing while change runs, and for a second after it.
func (w *fixture) silent(change func(w *fixture)) {
	var heal []func()
	for i := range w.f.Members() {
		heal = append(heal, w.f.Member(i).EditWatches(etcdfake.Silence))
	}
	change(w)
	w.pass(time.Second)
	for _, f := range heal {
		f()
	}
}

func TestAfterACompactionThePlannerReadsAgain(t *testing.T) {
	inBubble(t, 12, func(w *fixture) {
		w.began(3, shard.Options{})
		for i := range w.f.Members() {
			w.f.Member(i).EndStreams("Watch", status.Error(codes.Unavailable, "gone"))
		}
		fault := w.f.Inject(etcdfake.Rule{Method: "Watch", Opening: true, Err: status.Error(codes.Unavailable, "no")})
		w.another(w.planner()).kill()
		w.pass(ttl + time.Second)
		w.f.Compact(w.f.Revision())
		fault.Lift()
		w.pass(10 * time.Second)
		w.shared()
		w.start(shard.Options{})
		w.pass(5 * time.Second)
		w.shared()
	})
}

// A key among the member keys that no worker wrote keeps workers from joining, and is named in the
// error.
func TestAForeignKeyAmongTheMembersIsNamed(t *testing.T) {
	inBubble(t, 2, func(w *fixture) {
		foreign := w.keys.Prefix + "m/what"
		w.f.Put(foreign, "", 0)
		x := w.start(shard.Options{})
		w.pass(5 * time.Second)
		require.NotEmpty(w, x.kinds(shard.Retrying))
		assert.ErrorContains(w, x.kinds(shard.Retrying)[0].Err, foreign)
		require.True(w, w.f.Delete(foreign))
		w.pass(40 * time.Second)
		w.shared()
	})
}

// A refusal without an explanation is no reason to crash.
func TestAJoinThatIsRefusedForNoReasonIsTriedAgain(t *testing.T) {
	inBubble(t, 2, func(w *fixture) {
		first := true
		w.f.Inject(etcdfake.Rule{Op: "join the shards' workers", Match: func(q etcdfake.Request) bool {
			if r := q.Message.(*pb.TxnRequest); first {
				r.Compare = append(r.Compare, txn.CreateIs("none", 1))
			}
			first = false
			return false
		}})
		x := w.start(shard.Options{})
		w.pass(10 * time.Second)
		assert.Len(w, x.kinds(shard.Retrying), 1)
		w.shared()
	})
}

// The pauses between writes of the member key grow while they fail. After one that succeeds they begin anew.
func TestAfterAWriteOfTheMemberKeyItsPausesBeginAnew(t *testing.T) {
	inBubble(t, 2, func(w *fixture) {
		x := w.start(shard.Options{})
		w.pass(3 * time.Second)
		key := w.keys.Member(2, x.lease())
		deleted := func(failures int) {
			w.f.Inject(etcdfake.Rule{Op: "write the member key", Lose: true, Times: failures, Err: status.Error(codes.Unavailable, "no")})
			w.f.Delete(key)
		}
		deleted(7)
		w.pass(10 * time.Second)
		require.Nil(w, w.f.Get(key))
		w.pass(10 * time.Minute)
		require.NotNil(w, w.f.Get(key))
		deleted(1)
		w.pass(5 * time.Second)
		assert.NotNil(w, w.f.Get(key))
	})
}
