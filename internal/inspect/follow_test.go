package inspect_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-locks/pawl/internal/inspect"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/lease"
)

func TestAFollowerReportsEveryChange(t *testing.T) {
	for _, scope := range []inspect.Scope{{}, {Prefix: "re"}, {Name: "reports/daily"}} {
		inBubble(t, func(w *fixture) {
			w.Namespace = "app/"
			const name = "reports/daily"
			ann, bob := w.Session("ann"), w.Session("bob")
			f := w.follow(scope)
			h := w.Holds(ann, name)
			f.reports("reports/daily acquired")

			time.Sleep(2 * time.Second)
			giving, giveUp := context.WithCancel(w.Context())
			w.waits(giving, bob, name)
			f.reports("reports/daily enqueued")
			giveUp()
			f.reports("reports/daily gave up (key deleted)")

			next := w.waits(w.Context(), bob, name)
			again := w.waits(w.Context(), ann, name)
			f.reports("reports/daily enqueued", "reports/daily enqueued")
			time.Sleep(time.Second)
			require.NoError(w, h.Release(w.Context()))
			evs := f.reports("reports/daily released (key deleted)", "reports/daily acquired")
			assert.InDelta(w, 3, evs[0].Held.Seconds(), 0.2)
			assert.InDelta(w, 1, evs[1].Waited.Seconds(), 0.2)
			assert.Equal(w, "ann", evs[0].Position.Owner)

			b := <-next
			assert.Equal(w, b.Token(), evs[1].Position.Token)
			assert.Equal(w, evs[1].Position, f.f.Snapshot().Queues[0].Queue[0])
			require.NoError(w, b.Release(w.Context()))
			f.reports("reports/daily released (handed on)", "reports/daily acquired")
			require.NoError(w, (<-again).Release(w.Context()))
			f.reports("reports/daily released (key deleted)")
			w.Holds(bob, name)
			f.reports("reports/daily acquired")
			w.Cluster.Revoke(bob.ID())
			f.reports("reports/daily lost (lease ended)")
			w.Holds(ann, name)
			f.reports("reports/daily acquired")
			require.NoError(w, ann.Close(w.Context()))
			f.reports("reports/daily lost (lease ended)")
			assert.Empty(w, f.f.Snapshot().Queues)
		})
	}
}

func TestAFollowerReportsATerm(t *testing.T) {
	inBubble(t, func(w *fixture) {
		f := w.follow(inspect.Scope{})
		term := w.leads(w.Session("ann"), "chief", "v1")
		evs := f.reports("chief acquired")
		assert.True(w, evs[0].Election)
		assert.Equal(w, "ann", evs[0].Position.Owner)
		require.NoError(w, term.Proclaim(w.Context(), []byte("v2")))
		evs = f.reports("chief proclaimed")
		assert.Equal(w, "v2", string(evs[0].Position.Value))
		require.NoError(w, term.Resign(w.Context()))
		f.reports("chief released (key deleted)")
	})
}

func TestAFollowerGoesOnAfterACut(t *testing.T) {
	inBubble(t, func(w *fixture) {
		ann := w.Session("ann")
		f := w.follow(inspect.Scope{})
		h := w.Holds(ann, "a")
		f.reports("a acquired")
		for range 3 {
			w.Cluster.Cut() // connections end, and new ones can be made
			w.Cluster.Heal()
			require.NoError(w, h.Release(w.Context()))
			h = w.Holds(ann, "a")
			f.reports("a released (key deleted)", "a acquired")
		}
	})
}

func TestAFollowerReadsAgainAfterACompaction(t *testing.T) {
	inBubble(t, func(w *fixture) {
		ann, bob := w.Session("ann"), w.Session("bob")
		h := w.Holds(ann, "a")
		other := w.Client()
		f, err := inspect.Follow(w.Context(), other, inspect.Scope{})
		require.NoError(w, err)
		defer f.Close()
		fw := &follower{w, f}
		synctest.Wait()
		// The follower gets no event while the queue moves on and its past is compacted.
		f.Deaf()
		require.NoError(w, h.Release(w.Context()))
		w.Holds(bob, "a")
		w.Cluster.Compact(w.Cluster.Revision())
		synctest.Wait() // events under way would reach a watch that is made now
		f.Hear()
		fw.reports("a ended (cause unknown)?", "a acquired?")
		require.NoError(w, bob.Close(w.Context()))
		fw.reports("a lost (lease ended)")
	})
}

func TestASlowReaderMissesNothing(t *testing.T) {
	inBubble(t, func(w *fixture) {
		ann := w.Session("ann")
		f := w.follow(inspect.Scope{})
		w.Holds(ann, "b")
		for i := range 4096 {
			w.Cluster.Put("x", "", int64(i%2)*ann.ID())
			w.Cluster.Put("x/y", "", 0)
		}
		w.Holds(ann, "a")
		synctest.Wait()
		f.reports("b acquired", "a acquired")
		w.Cluster.Revoke(ann.ID())
		f.reports("a lost (lease ended)", "b lost (lease ended)")
	})
}

func TestNextEndsWithItsContextWithTheFollowerAndWithTheClient(t *testing.T) {
	inBubble(t, func(w *fixture) {
		c := w.Client()
		f, err := inspect.Follow(w.Context(), c, inspect.Scope{})
		require.NoError(w, err)
		ctx, cancel := context.WithTimeout(w.Context(), time.Second)
		defer cancel()
		_, err = f.Next(ctx)
		assert.ErrorIs(w, err, context.DeadlineExceeded)
		go func() {
			time.Sleep(time.Second)
			f.Close()
		}()
		_, err = f.Next(w.Context())
		assert.ErrorIs(w, err, inspect.ErrClosed)

		f, err = inspect.Follow(w.Context(), c, inspect.Scope{})
		require.NoError(w, err)
		defer f.Close()
		require.NoError(w, c.Close())
		_, err = f.Next(w.Context())
		assert.ErrorIs(w, err, lease.ErrClosed)
	})
}
