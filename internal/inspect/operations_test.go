package inspect_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-locks/pawl/internal/inspect"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/inmemory"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/lock"
)

// A server that allows half as many operations as usual shows many candidates, and that they all end at
// once.
func TestHalfOfTheUsualOperationsAreEnough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &fixture{inmemory.New(t, etcdfake.Options{Members: 3, MaxTxnOps: 64})}
		const n = 40
		s := w.Session("ann")
		for i := range n {
			w.leads(s, fmt.Sprintf("e%02d", i), "v")
		}
		assert.Len(t, w.read(inspect.Scope{}).Queues, n)
		f := w.follow(inspect.Scope{})
		require.NoError(t, s.Close(w.Context()))
		ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
		defer cancel()
		for ended := 0; ended < n; {
			events, err := f.f.Next(ctx)
			require.NoError(t, err)
			for _, e := range events {
				assert.Equal(t, inspect.LeaseEnded, e.Cause)
				ended++
			}
		}
	})
}

// Of a long queue, a display needs who holds, and how many wait.
func TestOnlyTheFirstOfAQueueAreReadWhole(t *testing.T) {
	inBubble(t, func(w *fixture) {
		s := w.Session("ann")
		w.Holds(s, "lock")
		w.leads(s, "chief", "at desk 7")
		lease := s.ID()
		for i := range 500 {
			w.Cluster.Put(fmt.Sprintf("lock/%x-%d", lease+1, i+1), inspect.SomeLabel, lease)
			w.Cluster.Put(fmt.Sprintf("chief/%x-%d", lease+2, i+1), "v", lease)
		}
		w.Cluster.Put("lock/readme", "", 0)
		before := w.Cluster.Counts().Received["Txn"]
		got := w.read(inspect.Scope{First: 1}).Queues
		assert.LessOrEqual(t, w.Cluster.Counts().Received["Txn"]-before, 5, "pages and one batch")
		require.Len(t, got, 2)
		chief, backup := got[0], got[1]
		assert.Equal(t, []string{inspect.KindElection}, chief.Kinds())
		assert.Equal(t, "at desk 7", string(chief.Queue[0].Value))
		assert.Equal(t, []string{inspect.KindLock}, backup.Kinds())
		assert.Equal(t, "ann", backup.Queue[0].Owner)
		assert.Empty(t, backup.Queue[1].Host)
		assert.Len(t, backup.Waiters(), 501)
		assert.Len(t, chief.Waiters(), 500)
		whole := w.read(inspect.Scope{Name: "lock", First: 3}).Queues[0]
		assert.NotEmpty(t, whole.Queue[2].Owner)
		assert.Empty(t, whole.Queue[3].Owner)
	})
}

// Who has waited for an hour has not held for an hour.
func TestAHolderHoldsSinceItsKeyWasPutOnlyIfNobodyWasBeforeIt(t *testing.T) {
	inBubble(t, func(w *fixture) {
		ann, bob := w.Session("ann"), w.Session("bob")
		since := func(name string) (held []bool) {
			for _, q := range w.read(inspect.Scope{Name: name, Held: true}).Queues {
				for _, p := range q.Holders() {
					assert.True(t, p.HeldSince.IsZero() || p.HeldSince.Equal(p.Since))
					held = append(held, !p.HeldSince.IsZero())
				}
			}
			return held
		}
		first := w.Holds(ann, "lock")
		assert.Equal(t, []bool{true}, since("lock"))
		second := w.waits(w.Context(), bob, "lock")
		assert.Equal(t, []bool{true}, since("lock"))
		require.NoError(t, first.Release(w.Context()))
		require.NotNil(t, <-second)
		assert.Equal(t, []bool{false}, since("lock"), "it was handed on")

		lost := w.Holds(ann, "lost")
		third := w.waits(w.Context(), bob, "lost")
		w.Cluster.Delete(lost.Key())
		require.NotNil(t, <-third)
		assert.Equal(t, []bool{false}, since("lost"), "it was not handed on, and waited")

		for range 2 {
			_, err := lock.NewMulti(ann, lock.Options{}, lock.Shared("docs")).Acquire(w.Context())
			require.NoError(t, err)
		}
		assert.Equal(t, []bool{true, true}, since("docs"), "readers wait for no reader")
		writer := w.Holds(ann, "after")
		got := make(chan error, 1)
		go func() {
			_, err := lock.NewMulti(bob, lock.Options{}, lock.Shared("after")).Acquire(w.Context())
			got <- err
		}()
		time.Sleep(time.Second)
		require.NoError(t, writer.Release(w.Context()))
		require.NoError(t, <-got)
		assert.Equal(t, []bool{false}, since("after"), "a reader waits for a writer")

		_, err := lock.NewSemaphore(ann, "gpu", 2, lock.Options{}).Acquire(w.Context())
		require.NoError(t, err)
		assert.Equal(t, []bool{true}, since("gpu"))

		w.Holds(ann, "old")
		w.Cluster.Put("x", "", 0)
		w.Holds(ann, "new")
		w.Cluster.Compact(w.Cluster.Revision() - 1)
		held := map[string]bool{}
		for _, q := range w.read(inspect.Scope{Held: true}).Queues {
			held[q.Name] = !q.Queue[0].HeldSince.IsZero()
		}
		assert.True(t, held["new"])
		assert.False(t, held["old"], "what was before it is compacted")
	})
}
