package queue

import (
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

// A waiter's watches begin at the present. One read finds what they may have missed, or a query if
// it waits for a slot.

const readPositions = "read positions"

// waits are the modes of a waiter.
var waits = []struct {
	name string
	as   func(w *fixture)
	slot bool
}{
	{"a lock", func(*fixture) {}, false},
	{"a shared lock", func(w *fixture) { w.shared = true }, false},
	{"a set", func(w *fixture) { w.set = []string{"b", "c"} }, false},
	{"etcd's layout", func(w *fixture) { w.etcd = true }, false},
	{"a permit", func(w *fixture) { w.limit = 1 }, true},
}

// eachWait runs f for each of waits, beside a holder that blocks it.
func eachWait(t *testing.T, f func(w *fixture, holder *Acquisition, slot bool)) {
	for _, mode := range waits {
		t.Run(mode.name, func(t *testing.T) {
			inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
				mode.as(w)
				holder := w.session()
				if mode.slot {
					f(w, w.permitOn(holder, 1).won(), true)
				} else {
					f(w, w.acquireExclusive(holder), false)
				}
			})
		})
	}
}

// reads counts the requests with an operation.
func (w *fixture) reads(op string) *etcdfake.Fault {
	return w.f.Inject(etcdfake.Rule{Op: op, HoldAnswer: time.Nanosecond})
}

func TestOnAQuietClusterNoWaiterReadsItsPosition(t *testing.T) {
	eachWait(t, func(w *fixture, holder *Acquisition, _ bool) {
		reads := w.reads(readPositions)
		next := w.waiting(w.session())
		time.Sleep(time.Second)
		w.release(holder)
		w.release(next.won())
		assert.Zero(w, reads.Hits())
		w.clear()
	})
}

// late starts a waiter whose watches are created a tenth of a second after f.
func (w *fixture) late(f func()) *acquireCall {
	watches := w.f.Inject(etcdfake.Rule{Method: "Watch", Delay: 100 * time.Millisecond})
	next := w.waiting(w.session())
	watches.Lift()
	f()
	return next
}

func TestWhatHappensBeforeTheWatchesIsFoundByOneRead(t *testing.T) {
	eachWait(t, func(w *fixture, holder *Acquisition, slot bool) {
		reads := w.reads(readPositions)
		next := w.late(func() { w.release(holder) })
		c := next.won()
		assert.Less(w, next.took, time.Second, "a renewal found it")
		if slot {
			assert.Zero(w, reads.Hits())
		} else {
			assert.Equal(w, 1, reads.Hits())
		}
		w.release(c)
		w.clear()
	})
}

func TestAnotherWriteCostsAWaiterOneRead(t *testing.T) {
	eachWait(t, func(w *fixture, holder *Acquisition, slot bool) {
		reads, queries := w.reads(readPositions), w.reads("confirm position")
		next := w.late(func() { w.f.Put("elsewhere", "", 0) })
		time.Sleep(time.Second)
		assert.Equal(w, 1, reads.Hits()+queries.Hits())
		assert.Equal(w, slot, queries.Hits() == 1)
		w.f.Put("elsewhere", "", 0)
		time.Sleep(time.Second)
		assert.Equal(w, 1, reads.Hits()+queries.Hits(), "the watches are there")
		w.release(holder)
		w.release(next.won())
		w.clear()
	})
}

func TestAnOwnKeyThatIsDeletedBeforeItsWatchIsFound(t *testing.T) {
	eachWait(t, func(w *fixture, holder *Acquisition, slot bool) {
		next := w.late(func() {
			synctest.Wait()
			for _, key := range w.f.Keys(w.queue().Prefix) {
				if key != holder.Key() {
					w.f.Delete(key)
				}
			}
		})
		w.oneCause(ErrKeyDeleted, next.failed())
		assert.Less(w, next.took, time.Second, "a renewal found it")
		w.release(holder)
		w.clear()
	})
}

// A handoff in the gap ends the wait as the deletion does.
func TestAHandoffBeforeTheWatchesIsFound(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(w *fixture) {
		first := w.acquireExclusive(w.session())
		second := w.waiting(w.session())
		third := w.late(func() {
			time.Sleep(10 * time.Millisecond)
			w.release(first)
			c := second.won()
			w.release(c)
		})
		c := third.won()
		assert.Less(w, third.took, time.Second)
		w.release(c)
		w.clear()
	})
}

// slowWaiters starts n waiters of one client, each in a different queue that somebody holds, and lets
// them acquire. It returns how many took longer than two seconds, as those do that only learn from
// a renewal.
func (w *fixture) slowWaiters(n int) (slow int) {
	holder, waiter := w.session(), w.session()
	var held []*Acquisition
	for _, q := range w.queuesOf(names(n)...) {
		c, err := Acquire(w.Context(), holder, Request{}, q)
		require.NoError(w, err)
		held = append(held, c)
	}
	watches := w.f.Inject(etcdfake.Rule{Method: "Watch", Delay: 50 * time.Millisecond})
	took := make(chan time.Duration, n)
	began := time.Now()
	for _, q := range w.queuesOf(names(n)...) {
		go func() { // ends with the release
			c, err := Acquire(w.Context(), waiter, Request{}, q)
			after := time.Since(began)
			if assert.NoError(w, err) {
				assert.NoError(w, c.Release(w.Context(), errGivenBack))
			}
			took <- after
		}()
	}
	synctest.Wait()
	watches.Lift()
	for _, c := range held {
		w.release(c)
	}
	for range n {
		if <-took > 2*time.Second {
			slow++
		}
	}
	return slow
}

func names(n int) (all []string) {
	for i := range n {
		all = append(all, "name"+string(rune('a'+i/26))+string(rune('a'+i%26)))
	}
	return all
}

func TestManyWaitersShareReads(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(w *fixture) {
		reads := w.f.Inject(etcdfake.Rule{Op: readPositions, HoldAnswer: time.Millisecond})
		assert.Zero(w, w.slowWaiters(200))
		assert.LessOrEqual(w, reads.Hits(), 8)
		w.clear()
	})
}

// A read of positions that fails is made smaller, sent again, or sent for each position alone.
func TestReadsOfPositionsThatFail(t *testing.T) {
	several := func(q etcdfake.Request) bool { return len(q.Message.(*pb.TxnRequest).Success) > 2 }
	for name, c := range map[string]struct {
		options etcdfake.Options
		rule    etcdfake.Rule
	}{
		"too many operations":      {etcdfake.Options{MaxTxnOps: 7}, etcdfake.Rule{Op: readPositions, Times: 1, Delay: time.Millisecond}},
		"much too many operations": {etcdfake.Options{MaxTxnOps: 4}, etcdfake.Rule{Op: readPositions, Times: 1, Delay: time.Millisecond}},
		"no answer, three times":   {etcdfake.Options{}, etcdfake.Rule{Op: readPositions, Times: 3, Err: rpctypes.ErrGRPCNoLeader}},
		"one may not be read":      {etcdfake.Options{}, etcdfake.Rule{Op: readPositions, Match: several, Err: rpctypes.ErrGRPCPermissionDenied}},
		"a member is stuck":        {etcdfake.Options{Members: 3}, etcdfake.Rule{Op: readPositions, Times: 1, Hang: true}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, c.options, func(w *fixture) {
				rule := w.f.Inject(c.rule)
				assert.Zero(w, w.slowWaiters(20), "renewals found it")
				assert.Positive(w, rule.Hits())
			})
		})
	}
}
