package queue

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/session"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

// holdsSlot asserts what is true of every held slot: its key is the only one of the slot, and the
// acquisition has none in the turnstile.
func (w *fixture) holdsSlot(c *Acquisition) {
	w.Helper()
	slot := c.Slot()
	require.NotEqual(w, -1, slot)
	assert.Equal(w, []string{c.Key()}, w.f.Keys(fmt.Sprintf("//pawl/sem/name/s%d.", slot)))
	k, _ := keys.ParseQueueKey(c.Key())
	assert.Nil(w, w.f.Get(keys.QueueKey{Lease: k.Lease, N: k.N, Form: keys.Turnstile}.In("//pawl/sem/name/")), "it is in the turnstile still")
	resource, t, ok := fencing.FromContext(c.Context())
	assert.Equal(w, []any{fmt.Sprintf("//pawl/slot/%d/name", slot), c.Token(), true}, []any{resource, t, ok})
}

// permit starts an Acquire of the semaphore with this limit.
func (w *fixture) permit(limit int) *acquireCall {
	w.Helper()
	return w.permitOn(w.session(), limit)
}

func (w *fixture) permitOn(s *session.Session, limit int) *acquireCall {
	w.Helper()
	w.limit = limit
	return w.acquiring(w.Context(), s, Request{})
}

func (a *acquireCall) slot() int {
	a.w.Helper()
	slot := a.won().Slot()
	require.NotEqual(a.w, -1, slot)
	return slot
}

func (w *fixture) slots() (all []string) {
	for _, key := range w.f.Keys("//pawl/sem/name/s") {
		all = append(all, strings.SplitAfter(key, ".")[0])
	}
	return all
}

// SM1, SM2: at most as many hold as there are slots, each takes the lowest free slot, and they are
// served in order.
// rule: SM2
func TestSlotsAreTakenInTurnAndTheLowestFirst(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
		var all []*acquireCall
		for range 6 {
			all = append(all, w.permit(3))
		}
		for i, a := range all[:3] {
			assert.Equal(w, i, a.slot())
		}
		for _, a := range all[3:] {
			require.False(w, isClosed(a.done))
		}
		w.release(all[1].won())
		assert.Equal(w, 1, all[3].slot())
		assert.False(w, isClosed(all[4].done))
		w.release(all[2].won())
		assert.Equal(w, 2, all[4].slot())
		w.release(all[0].won())
		assert.Equal(w, 0, all[5].slot())
		for _, i := range []int{3, 4, 5} {
			w.release(all[i].won())
		}
		w.clear()
	})
}

// SM3: each observes the least of its limit and those of all holders, and the number of holders.
// rule: SM3
func TestNobodyIsOneOfMoreThanItAgreedTo(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
		var five []*acquireCall
		for range 3 {
			five = append(five, w.permit(5))
		}
		w.release(five[0].won())
		two := w.permit(2) // slot 0 is free, and two are held
		synctest.Wait()
		assert.False(w, isClosed(two.done))
		w.release(five[2].won())
		assert.Equal(w, 0, two.slot())
		late := w.permit(5)
		assert.False(w, isClosed(late.done), "it would be the third beside one that agreed to two")
		w.release(two.won())
		assert.Equal(w, 0, late.slot())
		w.release(late.won())
		w.release(five[1].won())
		w.clear()
	})
}

// A4, A5, A6: however a take fails, one slot is held once, and its release leaves no trace,
// even if another waits for it.
// rule: SM1
func TestEveryFailureOfATakeEndsInOneHolder(t *testing.T) {
	eachFault(t, isTake, func(w *fixture, fa fault) {
		w.limit = 2
		s := w.session()
		hit := w.f.Inject(isTake.rule(fa.rule))
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

// SM1: a copy of a take that arrives after the acquisition gave up, or after the slot was released,
// puts nothing.
// rule: SM1
func TestACopyOfATakeThatComesTooLateIsRefused(t *testing.T) {
	for name, rule := range map[string]etcdfake.Rule{
		"after it was given up":      {Late: 6 * time.Second, Err: rpctypes.ErrGRPCTimeout},
		"after the slot was free":    {Again: 6 * time.Second, Err: rpctypes.ErrGRPCTimeout, Times: 1},
		"and nobody knows of either": {Again: 6 * time.Second, Hang: true},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
				w.limit = 1
				s := w.session()
				w.f.Inject(isTake.rule(rule))
				ctx, cancel := context.WithTimeout(w.Context(), 2*time.Second)
				defer cancel()
				c, err := w.take(ctx, s, Request{})
				if rule.Late == 0 && err == nil {
					w.release(c)
				} else {
					require.ErrorIs(w, err, context.DeadlineExceeded)
				}
				time.Sleep(10 * time.Second)
				w.f.LiftAll()
				require.Empty(w, w.keys())
				w.clear()
			})
		})
	}
}

// SM1: an acquisition that gives up when a take's answer is lost removes the slot too.
// rule: SM1
func TestGivingUpAfterATakeLeavesNoSlot(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
		w.limit = 1
		w.f.Inject(isTake.rule(etcdfake.Rule{Hang: true}))
		w.f.Inject(isQuery.rule(etcdfake.Rule{Lose: true, Hang: true}))
		ctx, cancel := context.WithTimeout(w.Context(), time.Second)
		defer cancel()
		_, err := w.take(ctx, w.session(), Request{})
		require.ErrorIs(w, err, context.DeadlineExceeded)
		synctest.Wait()
		w.f.LiftAll()
		w.clear()
	})
}

// A4: the first in the turnstile gets the slot although no watch shows that it is free, also when a
// compaction has swallowed the deletion.
// rule: SM2
func TestASlotThatNoWatchShowsIsFoundFree(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
		holder := w.permit(1).won()
		w.f.Inject(etcdfake.Rule{Method: "Watch", Lose: true, Hang: true})
		s := w.session()
		a := w.permitOn(s, 1)
		w.release(holder)
		began := time.Now()
		c := a.won()
		assert.LessOrEqual(w, time.Since(began), s.TTL()/2+time.Second)
		w.f.LiftAll()
		w.release(c)
		w.clear()
	})
}

// A3: a waiter learns of the deletion of its turnstile key, whether it is first there or not.
func TestOneInTheTurnstileLearnsThatItsKeyIsGone(t *testing.T) {
	for _, ahead := range []int{1, 2} {
		inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
			holder := w.permit(1).won()
			var waiters []*acquireCall
			for range ahead {
				waiters = append(waiters, w.permit(1))
			}
			last := waiters[ahead-1]
			turnstile := w.f.Keys("//pawl/sem/name/q")
			require.Len(w, turnstile, ahead)
			newest := turnstile[0]
			for _, key := range turnstile {
				if w.f.Get(key).CreateRevision > w.f.Get(newest).CreateRevision {
					newest = key
				}
			}
			w.f.Delete(newest)
			w.oneCause(ErrKeyDeleted, last.failed())
			w.release(holder)
			if ahead > 1 {
				w.release(waiters[0].won())
			}
			w.clear()
		})
	}
}

// H1: the loss of a slot affects that slot only.
// rule: SM4
func TestTheLossOfASlotIsItsAlone(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
		s := w.session()
		one, two := w.permitOn(s, 3).won(), w.permitOn(s, 3).won()
		time.Sleep(time.Second)
		w.f.Delete(one.Key())
		synctest.Wait()
		w.oneCause(ErrKeyDeleted, one.Err())
		require.ErrorIs(w, one.Err(), ErrLost)
		w.held(two)
		three := w.permitOn(s, 3)
		assert.Equal(w, 0, three.slot())
		w.release(two)
		w.release(three.won())
		w.clear()
	})
}

// A lock and a semaphore of one name have nothing to do with each other, in any mode and layout.
func TestALockAndASemaphoreOfOneNameAreApart(t *testing.T) {
	for _, try := range []bool{false, true} {
		inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
			p := w.permit(1).won()
			waits := w.permit(1)
			w.limit = 0
			for _, mode := range []struct {
				shared, etcd bool
				set          []string
			}{{}, {shared: true}, {etcd: true}, {set: []string{"name2"}}} {
				w.shared, w.etcd, w.set = mode.shared, mode.etcd, mode.set
				c, err := w.take(w.Context(), w.session(), Request{Try: try})
				require.NoError(w, err)
				w.release(c)
			}
			w.shared, w.etcd, w.set = false, false, nil
			c := w.acquire(w.session())
			w.release(p)
			w.release(waits.won())
			w.limit = 1
			p, err := w.take(w.Context(), w.session(), Request{Try: try})
			require.NoError(w, err)
			w.release(p)
			w.release(c)
			w.clear()
		})
	}
}

// SM2: a foreign key among the slots' keys blocks all of them.
func TestAForeignKeyAmongTheSlotsIsWaitedFor(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
		for _, key := range []string{"//pawl/sem/name/s0", "//pawl/sem/name/s0.x", "//pawl/sem/name/qx"} {
			w.f.Put(key, "", 0)
			a := w.permit(3)
			require.False(w, isClosed(a.done))
			w.f.Delete(key)
			w.release(a.won())
		}
		w.clear()
	})
}

// N6: a permit is resumed with its session, in its slot; one that was under way is removed.
// rule: SM4
func TestAPermitIsResumedInItsSlot(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
		s := w.session()
		one, two := w.permitOn(s, 2).won(), w.permitOn(s, 2).won()
		w.f.Inject(isTake.rule(etcdfake.Rule{Hang: true, Times: 1}))
		w.release(one)
		under := w.permitOn(s, 2)
		require.Equal(w, []string{"//pawl/sem/name/s0.", "//pawl/sem/name/s1."}, w.slots(), "it is taken, and the answer lost")
		next := w.successor(s)
		w.oneCause(errClosed, under.failed())
		time.Sleep(time.Second)
		assert.Equal(w, []string{two.Key()}, w.keys())

		w.limit = 1 // the limit was lowered meanwhile
		_, err := Resume(w.Context(), next, []string{one.Key()}, one.Token(), Limits{}, w.queue())
		require.Error(w, err)
		back, err := Resume(w.Context(), next, []string{two.Key()}, two.Token(), Limits{}, w.queue())
		require.NoError(w, err)
		require.NoError(w, back.Err())
		assert.Equal(w, []any{1, two.Token()}, []any{back.Slot(), back.Token()})
		w.limit = 0
		_, err = Resume(w.Context(), next, []string{two.Key()}, two.Token(), Limits{}, w.queue())
		require.Error(w, err, "it is no lock")
		w.limit = 2
		w.release(back)
		w.clear()
	})
}

// A try writes nothing if no slot is free, or if others wait.
func TestATryForASlotWritesNothingUnlessOneIsFree(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
		p := w.permit(1).won()
		s := w.session()
		for range 2 {
			before := w.f.Revision()
			_, err := w.take(w.Context(), s, Request{Try: true})
			require.ErrorIs(w, err, ErrBusy)
			assert.Equal(w, before, w.f.Revision())
			w.permit(1)
		}
		w.limit = 2 // one is free, but not by the least limit, and others wait
		_, err := w.take(w.Context(), s, Request{Try: true})
		require.ErrorIs(w, err, ErrBusy)
		_ = p
	})
}

// A try that loses the last free slot between its read and its take returns, and leaves nothing.
func TestATryThatComesTooLateLeavesNothing(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
		w.limit = 1
		s, other := w.session(), w.session()
		w.f.Inject(isEnqueue.rule(etcdfake.Rule{Delay: time.Second, Times: 1}))
		a := w.acquiring(w.Context(), s, Request{Try: true})
		c := w.acquire(other)
		require.ErrorIs(w, a.failed(), ErrBusy)
		w.release(c)
		w.clear()
	})
}

// SM1: a slot that somebody else has by the time of the take is not taken a second time.
// rule: SM1
func TestASlotThatIsTakenMeanwhileIsNotTakenTwice(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
		w.f.Inject(isTake.rule(etcdfake.Rule{Delay: 100 * time.Millisecond, Times: 1}))
		a := w.permit(2)
		w.f.Put("//pawl/sem/name/s0.2.1f-1", "", 0) // between the query and the take
		assert.Equal(w, 1, a.slot())
		w.f.Delete("//pawl/sem/name/s0.2.1f-1")
		w.release(a.won())
		w.clear()
	})
}

// SM2: the deletion of a slot's key while the slots are read is not overlooked.
func TestASlotThatIsFreedWhileItIsAskedAboutIsTakenAtOnce(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
		one, two := w.permit(2).won(), w.permit(2).won()
		s := w.session()
		a := w.permitOn(s, 2)
		w.f.Inject(isQuery.rule(etcdfake.Rule{HoldAnswer: 300 * time.Millisecond, Times: 1}))
		w.f.Put("//pawl/sem/name/s9.2.1f-1", "", 0)
		w.f.Delete("//pawl/sem/name/s9.2.1f-1") // it queries, and both are still held
		time.Sleep(100 * time.Millisecond)
		began := time.Now()
		w.release(two)
		assert.Equal(w, 1, a.slot())
		assert.Less(w, time.Since(began), time.Second)
		w.release(one)
		w.release(a.won())
		w.clear()
	})
}
