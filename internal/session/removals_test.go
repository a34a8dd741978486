package session

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawl-locks/pawl/internal/backoff"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/lease"
)

// release is removed at the given try, or never if that is 0.
type release struct {
	mu    sync.Mutex
	at    int
	tries []time.Time
}

func (r *release) remove(context.Context) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tries = append(r.tries, time.Now())
	return r.at != 0 && len(r.tries) >= r.at
}

func (r *release) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.tries)
}

// Rule A6: a removal is tried until it succeeds.
// rule: A6
func TestARemovalIsTriedUntilItIsDone(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
		s := r.session(lease.Options{})
		x := &release{at: 7}
		s.RemoveInBackground(x.remove)
		sleep(time.Minute)
		assert.Equal(t, 7, x.count())
		y := &release{at: 1}
		s.RemoveInBackground(y.remove)
		synctest.Wait()
		assert.Equal(t, 1, y.count(), "at once")
	})
}

// Rules A6, N4: an entry that cannot be removed, for lack of permission, holds up no other.
func TestARemovalThatFailsForEverHoldsUpNoOther(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
		s := r.session(lease.Options{})
		stuck, other, later := &release{}, &release{at: 1}, &release{at: 2}
		s.RemoveInBackground(stuck.remove)
		synctest.Wait()
		s.RemoveInBackground(other.remove)
		s.RemoveInBackground(later.remove)
		sleep(time.Second)
		assert.Equal(t, 1, other.count())
		sleep(10 * time.Second)
		assert.Equal(t, 2, later.count())
		assert.Less(t, stuck.count(), 50, "with pauses")
		assert.Greater(t, stuck.count(), 4)
	})
}

func TestRemovalsEndWithTheSession(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
		s := r.session(lease.Options{})
		x := &release{}
		s.RemoveInBackground(x.remove)
		sleep(time.Second)
		require.NoError(t, s.Close(context.Background()))
		n := x.count()
		s.RemoveInBackground((&release{}).remove)
		sleep(time.Minute)
		assert.Equal(t, n, x.count(), "the lease took it along")
		assert.Empty(t, r.host.Cleanup.Close(0))
	})
}

// waiters opens n entries whose keys exist, like those of waiters.
func (r *rig) waiters(s *Session, n int) (ns []int64) {
	r.t.Helper()
	for range n {
		n, key, err := begin(s, "queue/")
		require.NoError(r.t, err)
		r.Put(key, "", s.ID())
		isAnswered(s, n)
		ns = append(ns, n)
	}
	return ns
}

// Rule A6: what many waiters of a session gave up is removed together. 1,000 entries take three round
// trips, in requests most of which are full.
// rule: A6
func TestWhatManyWaitersGaveUpIsRemovedTogether(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(t *testing.T, r *rig) {
		s := r.session(lease.Options{TTL: 60 * time.Second})
		ns := r.waiters(s, 1_000)
		for _, m := range r.Members() {
			m.SetDelay(etcdfake.Fixed(15*time.Millisecond), etcdfake.Fixed(15*time.Millisecond))
		}
		before := r.Counts()
		for _, n := range ns {
			leaves(s, n)
		}
		sleep(3*30*time.Millisecond + time.Millisecond)
		assert.Empty(t, r.Keys("queue/"))
		assert.LessOrEqual(t, r.Counts().Since(before).Received["Txn"], 12)
		assert.Empty(t, toRemove(s.Detach()))
	})
}

// Rule A6: entries that are given up later do not shorten a long try, so that slow members eventually
// confirm.
func TestRemovalsThatAreGivenUpOneAfterTheOtherAreConfirmedBySlowMembers(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(t *testing.T, r *rig) {
		s := r.session(lease.Options{TTL: 60 * time.Second})
		ns := r.waiters(s, 60)
		for _, m := range r.Members() {
			m.SetDelay(etcdfake.Fixed(300*time.Millisecond), etcdfake.Fixed(300*time.Millisecond))
		}
		for _, n := range ns {
			leaves(s, n)
			sleep(70 * time.Millisecond)
		}
		sleep(20 * time.Second)
		assert.Zero(t, len(r.Keys("queue/")))
		assert.Empty(t, toRemove(s.Detach()))
	})
}

// One request hangs, the others work.
func TestARemovalThatHangsHoldsUpNoOther(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(t *testing.T, r *rig) {
		s := r.session(lease.Options{TTL: 60 * time.Second})
		ns := r.waiters(s, 300)
		r.Inject(etcdfake.Rule{Op: "leave the queue", Lose: true, Times: 1})
		for _, n := range ns {
			leaves(s, n)
		}
		sleep(50 * time.Millisecond)
		assert.LessOrEqual(t, len(r.Keys("queue/")), maxOps, "one batch of three")
		sleep(10 * time.Second)
		assert.Empty(t, r.Keys("queue/"))
	})
}

// Releases that are left to the background do not wait for one another either.
func TestReleasesInTheBackgroundGoSideBySide(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
		s := r.session(lease.Options{TTL: 60 * time.Second})
		slow := make([]*slowRelease, 80)
		for i := range slow {
			slow[i] = &slowRelease{}
			s.RemoveInBackground(slow[i].remove)
		}
		sleep(1100 * time.Millisecond)
		for _, x := range slow {
			assert.True(t, x.done.Load())
		}
	})
}

// slowRelease takes 100 ms.
type slowRelease struct{ done atomic.Bool }

func (r *slowRelease) remove(ctx context.Context) bool {
	r.done.Store(backoff.Sleep(ctx, 100*time.Millisecond))
	return r.done.Load()
}

// Whatever happens to a batch, and however it is refused, each of its parts is eventually removed for
// good.
func TestEachPartOfABatchIsRemovedWhateverBecomesOfTheBatch(t *testing.T) {
	for name, rule := range lossesOf(codes.Unavailable) {
		for _, times := range []int{1, 3} {
			rule.Op, rule.Times = "leave the queue", times
			removesAll(t, fmt.Sprintf("%s/%d", name, times), func(r *rig, _ []string) { r.Inject(rule) })
		}
	}
	removesAll(t, "too large", func(r *rig, _ []string) {
		r.Inject(etcdfake.Rule{Op: "leave the queue", Lose: true, Err: rpctypes.ErrGRPCRequestTooLarge, Match: func(q etcdfake.Request) bool {
			return len(q.Message.(*pb.TxnRequest).Success) > 2
		}})
	})
	removesAll(t, "no space", func(r *rig, keys []string) {
		r.SetNoSpace(true)
		time.AfterFunc(2*time.Second, func() {
			for _, key := range keys {
				assert.Nil(r.t, r.Get(key), "the deletions alone work")
			}
			r.SetNoSpace(false)
		})
	})
}

func TestAServerThatAllowsFewOperationsIsBelieved(t *testing.T) {
	inBubble(t, etcdfake.Options{MaxTxnOps: 20}, func(t *testing.T, r *rig) {
		s := r.session(lease.Options{TTL: 60 * time.Second})
		for _, n := range r.waiters(s, 100) {
			leaves(s, n)
		}
		sleep(time.Second)
		assert.Empty(t, r.Keys("queue/"))
	})
}

// deletes reports whether q is a transaction that deletes key.
func deletes(q etcdfake.Request, key string) bool {
	return slices.ContainsFunc(q.Message.(*pb.TxnRequest).Success, func(op *pb.RequestOp) bool {
		return string(op.GetRequestDeleteRange().GetKey()) == key
	})
}

func TestOnePartThatIsForbiddenKeepsNoOther(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
		s := r.session(lease.Options{TTL: 60 * time.Second})
		ns := r.waiters(s, 50)
		forbidden := keys.QueueKey{Lease: s.ID(), N: ns[7]}.In("queue/")
		f := r.Inject(etcdfake.Rule{Op: "leave the queue", Lose: true, Err: rpctypes.ErrGRPCPermissionDenied, Match: func(q etcdfake.Request) bool {
			return deletes(q, forbidden)
		}})
		for _, n := range ns {
			leaves(s, n)
		}
		sleep(time.Second)
		assert.Equal(t, []string{forbidden}, r.Keys("queue/"))
		f.Lift()
		sleep(time.Second)
		assert.Empty(t, r.Keys("queue/"))
	})
}

// Rule A6: a removal that is refused for as long as the session lives costs little, holds up no release
// in the background, and succeeds once it is allowed.
// rule: A6
func TestManyForbiddenPartsCostLittle(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
		s := r.session(lease.Options{TTL: 60 * time.Second})
		f := r.Inject(etcdfake.Rule{Op: "leave the queue", Lose: true, Err: rpctypes.ErrGRPCPermissionDenied})
		for _, n := range r.waiters(s, 200) {
			leaves(s, n)
		}
		sleep(10 * time.Second)
		before := r.Counts()
		other := &slowRelease{}
		s.RemoveInBackground(other.remove)
		sleep(101 * time.Millisecond)
		assert.True(t, other.done.Load())
		sleep(10 * time.Second)
		assert.LessOrEqual(t, r.Counts().Since(before).Received["Txn"], 100, "two at a time, each after a wait of 250 to 500 ms")
		f.Lift()
		sleep(time.Second)
		assert.Empty(t, r.Keys("queue/"))
	})
}

// A5: no key of an entry of several names is deleted before the cancel key is put, even if all
// operations are sent one by one. Otherwise a late copy of its enqueue could be applied between the
// two.
// rule: A5
func TestNothingIsDeletedBeforeItsCancelKeyIsPut(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
		s := r.session(lease.Options{TTL: 60 * time.Second})
		n, own, err := opens(s, keys.Spec{Prefix: "a/"}, keys.Spec{Prefix: "b/"})
		require.NoError(t, err)
		for _, key := range own {
			r.Put(key, "", s.ID())
		}
		f := r.Inject(etcdfake.Rule{Method: "Txn", Lose: true, Err: rpctypes.ErrGRPCPermissionDenied, Match: func(q etcdfake.Request) bool {
			ops := q.Message.(*pb.TxnRequest).Success
			return len(ops) > 1 || len(ops) == 1 && string(ops[0].GetRequestPut().GetKey()) == string(s.CancelKey(n))
		}})
		leaves(s, n)
		sleep(5 * time.Second)
		for _, key := range own {
			assert.NotNil(t, r.Get(key))
		}
		f.Lift()
		sleep(time.Second)
		for _, key := range own {
			assert.Nil(t, r.Get(key))
		}
		assert.NotNil(t, r.Get(string(s.CancelKey(n))))
	})
}

// A6: on a full disk each key of an entry of several names is deleted if that is permitted.
func TestOnAFullDiskOneForbiddenNameKeepsNoOther(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
		s := r.session(lease.Options{TTL: 60 * time.Second})
		n, own, err := opens(s, keys.Spec{Prefix: "a/"}, keys.Spec{Prefix: "b/"}, keys.Spec{Prefix: "c/"})
		require.NoError(t, err)
		for _, key := range own {
			r.Put(key, "", s.ID())
		}
		r.SetNoSpace(true)
		f := r.Inject(etcdfake.Rule{Op: "leave the queue", Lose: true, Err: rpctypes.ErrGRPCPermissionDenied, Match: func(q etcdfake.Request) bool {
			return deletes(q, own[1]) && string(q.Message.(*pb.TxnRequest).Success[0].GetRequestPut().GetKey()) != string(s.CancelKey(n))
		}})
		leaves(s, n)
		sleep(time.Second)
		assert.Nil(t, r.Get(own[0]))
		assert.NotNil(t, r.Get(own[1]))
		assert.Nil(t, r.Get(own[2]))
		f.Lift()
		sleep(2 * time.Second)
		assert.Nil(t, r.Get(own[1]))
		r.SetNoSpace(false)
		sleep(maxSpaceWait)
		assert.NotNil(t, r.Get(string(s.CancelKey(n))))
	})
}

// removesAll has 100 entries removed during faults. Every second one is not known to exist.
func removesAll(t *testing.T, name string, fault func(r *rig, keys []string)) {
	t.Run(name, func(t *testing.T) {
		inBubble(t, etcdfake.Options{Members: 3}, func(t *testing.T, r *rig) {
			s := r.session(lease.Options{TTL: 60 * time.Second})
			keys := r.open(s, 100)
			for i := range keys {
				if n := int64(i + 1); i%2 == 0 {
					isAnswered(s, n)
				}
			}
			fault(r, keys)
			for i := range keys {
				leaves(s, int64(i+1))
			}
			sleep(30 * time.Second)
			for i, key := range keys {
				assert.Nil(t, r.Get(key))
				assert.Equal(t, i%2 == 1, r.Get(string(s.CancelKey(int64(i+1)))) != nil, "a cancel key where a late copy could be applied")
			}
			assert.Empty(t, toRemove(s.Detach()))
		})
	})
}

// A6: an entry that makes every request fail that contains it, for whatever reason, holds up the others
// for only a few seconds.
// rule: A6
func TestAnEntryThatMakesEachRequestFailHoldsUpNoOther(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
		s := r.session(lease.Options{TTL: 60 * time.Second})
		ns := r.waiters(s, 50)
		bad := keys.QueueKey{Lease: s.ID(), N: ns[0]}.In("queue/")
		f := r.Inject(etcdfake.Rule{Op: "leave the queue", Lose: true, Err: status.Error(codes.Internal, "this name"), Match: func(q etcdfake.Request) bool {
			return deletes(q, bad)
		}})
		for _, n := range ns {
			leaves(s, n)
		}
		sleep(15 * time.Second)
		assert.Equal(t, []string{bad}, r.Keys("queue/"))
		f.Lift()
		sleep(5 * time.Second)
		assert.Empty(t, r.Keys("queue/"))
	})
}

// undos counts the requests that delete key.
func (r *rig) undos(key string) *etcdfake.Fault {
	return r.Inject(etcdfake.Rule{Op: "leave the queue", Match: func(q etcdfake.Request) bool { return deletes(q, key) }})
}

// A6: when nothing waits with a backoff any more, it begins again with its first wait, whether what
// waited was removed or now fails in another way.
func TestABackoffThatNothingWaitsWithBeginsAgain(t *testing.T) {
	for name, last := range map[string]error{"removed": nil, "cut": status.Error(codes.Unavailable, "cut")} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
				s := r.session(lease.Options{TTL: 60 * time.Second})
				all := r.open(s, 2)
				r.SetNoSpace(true)
				leaves(s, 1)
				sleep(5 * time.Minute)
				r.SetNoSpace(false)
				if last != nil {
					cut := r.Inject(etcdfake.Rule{Op: "leave the queue", Lose: true, Err: last})
					sleep(2 * maxSpaceWait)
					cut.Lift()
				}
				sleep(maxSpaceWait)
				require.NotNil(t, r.Get(string(s.CancelKey(1))))

				r.SetNoSpace(true)
				undos := r.undos(all[1])
				leaves(s, 2)
				synctest.Wait()
				first := undos.Hits()
				sleep(minSpaceWait)
				assert.Greater(t, undos.Hits(), first)
			})
		})
	}
}

// What waits for disk space does not take the faster backoff of what fails for another reason.
func TestWhatWaitsForDiskSpaceDoesNotWaitWithWhatFails(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
		s := r.session(lease.Options{TTL: 60 * time.Second})
		all := r.open(s, 2)
		r.SetNoSpace(true)
		failing := r.Inject(etcdfake.Rule{Op: "leave the queue", Lose: true, Err: status.Error(codes.Internal, "this name"), Match: func(q etcdfake.Request) bool {
			return deletes(q, all[0])
		}})
		full := r.undos(all[1])
		leaves(s, 1)
		leaves(s, 2)
		sleep(time.Minute)
		assert.Greater(t, failing.Hits(), 60)
		assert.Less(t, full.Hits(), 20)
	})
}

// A6: an entry that the server refuses as too much even alone cannot be split, and is tried after pauses.
func TestAnEntryThatIsTooMuchEvenAloneIsTriedAfterPauses(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(t *testing.T, r *rig) {
		s := r.session(lease.Options{TTL: 60 * time.Second})
		key := r.open(s, 1)[0]
		f := r.Inject(etcdfake.Rule{Op: "leave the queue", HoldAnswer: time.Millisecond, Lose: true, Err: rpctypes.ErrGRPCTooManyOps})
		leaves(s, 1)
		sleep(10 * time.Second)
		assert.NotNil(t, r.Get(key))
		assert.Less(t, f.Hits(), 100)
		f.Lift()
		sleep(5 * time.Second)
		assert.Nil(t, r.Get(key))
	})
}
