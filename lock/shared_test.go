package lock_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/session"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/lock"
	"github.com/pawl-locks/pawl/observe"
)

func (w *fixture) acquireShared(s *pawl.Session) *lock.Held {
	w.Helper()
	h, err := mutex(s).AcquireShared(w.Context())
	require.NoError(w, err)
	require.NoError(w, h.Err())
	assert.True(w, h.Shared())
	return h
}

// Budget: a shared lock that nobody wants exclusively costs two requests, and no watch if it is
// held for a moment, beside others that share it too.
func TestASharedLockCostsTwoRequests(t *testing.T) {
	inBubble(t, func(w *fixture) {
		w.acquireShared(w.session())
		time.Sleep(time.Second)
		s := w.session()
		n := w.counted(func() {
			for range 100 {
				h := w.acquireShared(s)
				time.Sleep(session.ArmDelay / 200)
				require.NoError(w, h.Release(w.Context()))
			}
		})
		assert.Equal(w, map[string]int{"Txn": 200}, n.Received)
	})
}

// Budget: a shared lock behind an exclusive one costs three requests and two watches.
func TestASharedLockBehindAnExclusiveOneIsWithinItsBudget(t *testing.T) {
	inBubble(t, func(w *fixture) {
		h := w.acquire(w.session())
		s := w.session()
		var a *acquireCall
		n := w.counted(func() { a = w.sharing(w.Context(), mutex(s)) })
		assert.Equal(w, 1, n.Received["Txn"], "to enqueue")
		watches := n.Received["Watch"]
		n = w.counted(func() {
			require.NoError(w, h.Release(w.Context()))
			<-a.done
			require.NoError(w, a.err)
		})
		assert.Equal(w, 2, n.Received["Txn"], "the holder's release, and one to confirm")
		watches += n.Received["Watch"]
		n = w.counted(func() { require.NoError(w, a.h.Release(w.Context())) })
		assert.Equal(w, 1, n.Received["Txn"], "to release")
		assert.LessOrEqual(w, watches+n.Received["Watch"], 4, "two creations, two cancels")
	})
}

// Budget: an exclusive waiter behind many shared holders has two watches at a time, and queries
// only when the last-created of them leaves. So it queries once if they leave in the order in which
// they came, and once for each in the reverse order, which is the worst.
// rule: RW3
func TestAnExclusiveLockBehindReadersQueriesWhenTheLastOfThemLeaves(t *testing.T) {
	const readers = 20
	for name, want := range map[string]struct{ queries, moves int }{"in order": {1, 0}, "in reverse": {readers, readers - 1}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *fixture) {
				var held []*lock.Held
				for range readers {
					held = append(held, w.acquireShared(w.session()))
				}
				time.Sleep(time.Second) // the holders watch them
				s := w.session()
				var writer *acquireCall
				n := w.counted(func() { writer = w.waiting(s) })
				assert.Equal(w, map[string]int{"Txn": 1, "Watch": 2}, n.Received, "its own key, and the one before it")
				if want.moves > 0 {
					slices.Reverse(held)
				}
				n = w.counted(func() {
					for _, h := range held {
						require.NoError(w, h.Release(w.Context()))
						synctest.Wait()
					}
					w.release(writer.won())
					time.Sleep(100 * time.Millisecond) // a cancel waits to be sent with others
				})
				assert.Equal(w, readers+want.queries+1, n.Received["Txn"], "their releases, its queries and its release")
				assert.Equal(w, readers+2*want.moves+2, n.Received["Watch"], "each cancels its own; it cancels one and makes one at each move, and cancels both at the end")
				w.clear()
			})
		})
	}
}

// sharing starts an AcquireShared, and returns when it waits for something.
func (w *fixture) sharing(ctx context.Context, m *lock.Mutex) *acquireCall {
	a := &acquireCall{w: w, done: make(chan struct{})}
	go func() {
		defer close(a.done)
		a.h, a.err = m.AcquireShared(ctx)
	}()
	synctest.Wait()
	return a
}

// Options that shared mode does not support are refused, and nothing is sent.
func TestWhatSharedModeDoesNotGoWithIsRefused(t *testing.T) {
	inBubble(t, func(w *fixture) {
		s := w.session()
		synctest.Wait()
		before := w.f.Counts()
		for want, m := range map[string]*lock.Mutex{
			"EtcdLayout":  lock.New(s, "name", lock.Options{EtcdLayout: true}),
			"MaxHold":     lock.New(s, "name", lock.Options{MaxHold: -1}),
			"empty name":  lock.New(s, "", lock.Options{}),
			"nil Mutex":   nil,
			"nil session": lock.New(nil, "name", lock.Options{}),
		} {
			_, err := m.AcquireShared(w.Context())
			assert.ErrorContains(w, err, want)
			_, err = m.TryAcquireShared(w.Context())
			assert.ErrorContains(w, err, want)
			assert.ErrorContains(w, m.DoShared(w.Context(), func(context.Context, *lock.Held) error { return nil }), want)
		}
		assert.ErrorContains(w, mutex(s).DoShared(w.Context(), nil), "nil function")
		assert.Empty(w, w.f.Counts().Since(before).Received)
		assert.False(w, (*lock.Held)(nil).Shared())
	})
}

// A name of etcd's layout that lies among another's shared keys blocks that name's exclusive
// acquisitions, as any name within it does, and not its shared ones.
func TestANameInEtcdsLayoutAmongTheSharedKeysOfAnother(t *testing.T) {
	inBubble(t, func(w *fixture) {
		for name, blocks := range map[string]bool{"name/b": true, "name/+b": false} {
			h, err := lock.New(w.session(), name, lock.Options{EtcdLayout: true}).Acquire(w.Context())
			require.NoError(w, err)
			m := lock.New(w.session(), "name", lock.Options{})
			_, err = m.TryAcquire(w.Context())
			assert.ErrorIs(w, err, lock.ErrBusy, name)
			shared, err := m.TryAcquireShared(w.Context())
			if blocks {
				assert.ErrorIs(w, err, lock.ErrBusy, name)
			} else if assert.NoError(w, err, name) {
				require.NoError(w, shared.Release(w.Context()))
			}
			require.NoError(w, h.Release(w.Context()))
		}
	})
}

// Observers see the mode, and the queue shows it.
func TestTheModeIsSeen(t *testing.T) {
	inBubble(t, func(w *fixture) {
		e := &recorder{}
		_, s := w.observedBy(e)
		r := w.acquireShared(s)
		writer := w.waiting(s)
		q, err := mutex(s).Queue(w.Context())
		require.NoError(w, err)
		require.Len(w, q, 2)
		assert.Equal(w, []lock.Mode{lock.ModeShared, lock.ModeExclusive}, []lock.Mode{q[0].Mode, q[1].Mode})
		require.NoError(w, r.Release(w.Context()))
		w.release(writer.won())
		modes := map[observe.Mode]string{}
		for _, ev := range e.events() {
			switch ev := ev.(type) {
			case observe.LockEnqueued:
				modes[ev.Mode] += fmt.Sprint("e", ev.Ahead)
			case observe.LockAcquired:
				modes[ev.Mode] += "a"
			case observe.LockReleased:
				modes[ev.Mode] += "r"
			}
		}
		assert.Equal(w, map[observe.Mode]string{observe.Shared: "e0ar", observe.Exclusive: "e1ar"}, modes)
		w.clear()
	})
}
