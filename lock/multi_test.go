package lock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/etcdapi"
	"github.com/pawl-locks/pawl/internal/session"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/kv"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
	"github.com/pawl-locks/pawl/observe"
)

// wants returns n names, of which every third is shared.
func wants(n int) (all []lock.Want) {
	for i := range n {
		name := fmt.Sprintf("set/%d", i)
		if i%3 == 2 {
			all = append(all, lock.Shared(name))
		} else {
			all = append(all, lock.Exclusive(name))
		}
	}
	return all
}

func (w *fixture) acquireAll(s *pawl.Session, all ...lock.Want) *lock.Held {
	w.Helper()
	h, err := lock.NewMulti(s, lock.Options{}, all...).Acquire(w.Context())
	require.NoError(w, err)
	require.NoError(w, h.Err())
	require.Len(w, h.Keys(), len(all))
	for _, key := range h.Keys() {
		assert.Equal(w, int64(h.Token()), etcdapi.CreateRevision(w.f.Get(key)))
	}
	return h
}

// collecting starts an acquisition of several names, and returns when it waits.
func (w *fixture) collecting(ctx context.Context, m *lock.Multi) (h func() (*lock.Held, error), waits func() bool) {
	done := make(chan struct{})
	var held *lock.Held
	var err error
	go func() {
		defer close(done)
		held, err = m.Acquire(ctx)
	}()
	synctest.Wait()
	return func() (*lock.Held, error) { <-done; return held, err }, func() bool { synctest.Wait(); return !isClosed(done) }
}

// Budget: a set of any size that nobody else wants costs two requests, and no watch if it is held
// for a moment.
// rule: ML2
func TestASetOfAnySizeCostsTwoRequests(t *testing.T) {
	inBubble(t, func(w *fixture) {
		s := w.session()
		for _, size := range []int{1, 2, 8, lock.MaxNames} {
			n := w.counted(func() {
				h := w.acquireAll(s, wants(size)...)
				time.Sleep(session.ArmDelay / 2)
				require.NoError(w, h.Release(w.Context()))
			})
			assert.Equal(w, map[string]int{"Txn": 2}, n.Received, "%d names", size)
		}
		assert.Empty(w, w.f.Keys("/set"))
	})
}

// Budget, ML4: a waiter for several names watches one foreign key at a time, the last-created. It
// queries only when that key goes, and then watches the last of those that are left. So it queries
// once if they go in the order in which they came, and once for each in the reverse order.
// rule: ML4
func TestAWaitingSetHasOneForeignWatchAtATime(t *testing.T) {
	t.Run("in order", func(t *testing.T) { testOneForeignWatch(t, false) })
	t.Run("in reverse", func(t *testing.T) { testOneForeignWatch(t, true) })
}

func testOneForeignWatch(t *testing.T, reverse bool) {
	const names = 5
	inBubble(t, func(w *fixture) {
		holders := make([]*lock.Held, names)
		for i := range holders {
			var err error
			holders[i], err = lock.New(w.session(), fmt.Sprintf("set/%d", i), lock.Options{}).Acquire(w.Context())
			require.NoError(w, err)
		}
		time.Sleep(time.Second) // the holders watch them
		s := w.session()
		var all []lock.Want
		for i := range names {
			all = append(all, lock.Exclusive(fmt.Sprintf("set/%d", i)))
		}
		var got func() (*lock.Held, error)
		n := w.counted(func() { got, _ = w.collecting(w.Context(), lock.NewMulti(s, lock.Options{}, all...)) })
		assert.Equal(w, map[string]int{"Txn": 1, "Watch": names + 1}, n.Received, "its own keys, and one")
		if reverse {
			slices.Reverse(holders)
		}
		for i, h := range holders[:names-1] {
			n := w.counted(func() {
				require.NoError(w, h.Release(w.Context()))
				time.Sleep(100 * time.Millisecond) // a cancel waits to be sent with others
			})
			want := map[string]int{"Txn": 1, "Watch": 1} // the holder's: it releases, and cancels its watch
			if reverse {
				want = map[string]int{"Txn": 2, "Watch": 3} // the set queries, cancels the one watch, and makes another
			}
			assert.Equal(w, want, n.Received, "release %d", i)
		}
		require.NoError(w, holders[names-1].Release(w.Context()))
		h, err := got()
		require.NoError(w, err)
		require.NoError(w, h.Release(w.Context()))
	})
}

// Bad input is a clear error before anything is sent.
func TestBadSetsAreClearErrors(t *testing.T) {
	inBubble(t, func(w *fixture) {
		s := w.session()
		synctest.Wait()
		before := w.f.Counts()
		a, b := lock.Exclusive("a"), lock.Exclusive("b")
		etcd := lock.Options{EtcdLayout: true}
		for want, m := range map[string]*lock.Multi{
			"no names":                  lock.NewMulti(s, lock.Options{}),
			"33 names, want at most 32": lock.NewMulti(s, lock.Options{}, wants(33)...),
			`"a" is given twice`:        lock.NewMulti(s, lock.Options{}, a, b, lock.Shared("a")),
			"name 2 of 2: empty name":   lock.NewMulti(s, lock.Options{}, a, lock.Exclusive("")),
			"at most 1024":              lock.NewMulti(s, lock.Options{}, a, lock.Exclusive(strings.Repeat("x", 1025))),
			"MaxHold":                   lock.NewMulti(s, lock.Options{MaxHold: -1}, a),
			"EtcdLayout":                lock.NewMulti(s, etcd, a, lock.Shared("b")),
			"within the other":          lock.NewMulti(s, etcd, lock.Exclusive("a/b"), a),
			"sessions' own keys":        lock.NewMulti(s, etcd, a, lock.Exclusive("//pawl")),
			"nil session":               lock.NewMulti(nil, lock.Options{}, a),
			"or Semaphore":              nil,
		} {
			_, err := m.Acquire(w.Context())
			assert.ErrorContains(w, err, want)
			_, err = m.TryAcquire(w.Context())
			assert.ErrorContains(w, err, want)
			_, err = m.Resume(w.Context(), []string{"k"}, 1)
			assert.ErrorContains(w, err, want)
			assert.ErrorContains(w, m.Do(w.Context(), func(context.Context, *lock.Held) error { return nil }), want)
		}
		good := lock.NewMulti(s, lock.Options{}, a, b)
		assert.ErrorContains(w, good.Do(w.Context(), nil), "nil function")
		var none context.Context
		_, err := good.Acquire(none)
		assert.ErrorContains(w, err, `"a", "b": nil context`)
		_, err = good.Acquire(over(w.Context()))
		assert.ErrorIs(w, err, context.Canceled)
		for _, keys := range [][]string{nil, {"a/1-1"}, {"a/1-1", "b/1-1"}, {fmt.Sprintf("a/%x-1", s.ID()), fmt.Sprintf("b/%x-2", s.ID())}} {
			_, err = good.Resume(w.Context(), keys, 1)
			assert.Error(w, err)
		}
		assert.Empty(w, w.f.Counts().Since(before).Received)
	})
}

// Names of two clusters are refused when the sessions for them are requested, and by a set whose
// sessions are of only one name's cluster, or of neither's.
func TestASetOfTwoClustersIsRefused(t *testing.T) {
	inBubble(t, func(w *fixture) {
		a := w.client(pawl.Config{})
		clusters, err := pawl.NewClusters(map[string]*pawl.Client{"a": a, "b": w.client(pawl.Config{})})
		require.NoError(w, err)
		on := map[string][]string{} // names, by label
		for i := 0; len(on["a"]) < 2 || len(on["b"]) < 2; i++ {
			name := fmt.Sprint("n", i)
			on[clusters.Label(name)] = append(on[clusters.Label(name)], name)
		}
		one, other := on["a"], on["b"]
		_, err = clusters.ForAll(one[0], other[0])
		require.ErrorContains(w, err, "must be on one cluster")

		synctest.Wait()
		before := w.f.Counts()
		for want, m := range map[string]*lock.Multi{
			"must be on one cluster": lock.NewMulti(clusters.For(one[0]), lock.Options{}, lock.Exclusive(one[0]), lock.Shared(other[0])),
			`is on "b"`:              lock.NewMulti(clusters.For(one[0]), lock.Options{}, lock.Exclusive(other[0]), lock.Exclusive(one[0])),
			`those of "a"`:           lock.NewMulti(clusters.For(one[0]), lock.Options{}, lock.Exclusive(other[0]), lock.Exclusive(other[1])),
		} {
			_, err := m.Acquire(w.Context())
			require.ErrorContains(w, err, want)
			_, err = m.TryAcquire(w.Context())
			require.ErrorContains(w, err, want)
			_, err = m.Resume(w.Context(), []string{"k", "l"}, 1)
			require.ErrorContains(w, err, want)
			require.ErrorContains(w, m.Do(w.Context(), func(context.Context, *lock.Held) error { return nil }), want)
		}
		assert.Empty(w, w.f.Counts().Since(before).Received)

		all, err := clusters.ForAll(one...)
		require.NoError(w, err)
		for _, s := range []pawl.Sessions{all, clusters.For(one[1]), a} {
			h, err := lock.NewMulti(s, lock.Options{}, lock.Exclusive(one[0]), lock.Exclusive(one[1])).Acquire(w.Context())
			require.NoError(w, err)
			require.NoError(w, h.Release(w.Context()))
		}
		var none *pawl.Clusters
		_, err = lock.NewMulti(none.For("a"), lock.Options{}, lock.Exclusive("a")).Acquire(w.Context())
		assert.ErrorContains(w, err, "not made by NewClusters")
	})
}

// TryAcquire takes all or none, says which name is not free, and writes nothing then.
func TestATryOfASetTakesAllOrNone(t *testing.T) {
	inBubble(t, func(w *fixture) {
		s := w.session()
		h, err := lock.New(w.session(), "b", lock.Options{}).AcquireShared(w.Context())
		require.NoError(w, err)
		rev := w.f.Revision()
		n := w.counted(func() {
			_, err = lock.NewMulti(s, lock.Options{}, lock.Exclusive("a"), lock.Exclusive("b")).TryAcquire(w.Context())
		})
		require.ErrorIs(w, err, lock.ErrBusy)
		assert.ErrorContains(w, err, `"b" is held by`)
		assert.Equal(w, map[string]int{"Txn": 1}, n.Received)
		assert.Equal(w, rev, w.f.Revision())
		set, err := lock.NewMulti(s, lock.Options{}, lock.Exclusive("a"), lock.Shared("b")).TryAcquire(w.Context())
		require.NoError(w, err)
		require.NoError(w, set.Release(w.Context()))
		require.NoError(w, h.Release(w.Context()))
	})
}

// The contexts of a set carry no token, and hide an outer one. ContextFor carries that of a name.
// rule: ML7
func TestTheContextsOfASetCarryNoToken(t *testing.T) {
	inBubble(t, func(w *fixture) {
		outer := fencing.NewContext(w.Context(), "outer", 1)
		h, err := lock.NewMulti(w.session(), lock.Options{}, lock.Exclusive("a"), lock.Shared("b")).Acquire(outer)
		require.NoError(w, err)
		bare := func(ctx context.Context) {
			_, _, ok := fencing.FromContext(ctx)
			_, _, shared := fencing.FromSharedContext(ctx)
			assert.False(w, ok || shared)
		}
		bare(h.Context())
		one, err := lock.NewMulti(w.session(), lock.Options{}, lock.Shared("one")).Acquire(outer)
		require.NoError(w, err)
		name, token, ok := fencing.FromSharedContext(one.Context())
		assert.Equal(w, []any{"one", one.Token(), true}, []any{name, token, ok}, "as that of a Mutex")
		require.NoError(w, one.Release(w.Context()))
		require.NoError(w, h.Do(outer, func(ctx context.Context) error {
			bare(ctx)
			name, token, ok := fencing.FromContext(h.ContextFor(ctx, "a"))
			assert.Equal(w, []any{"a", h.Token(), true}, []any{name, token, ok})
			name, token, ok = fencing.FromSharedContext(h.ContextFor(ctx, "b"))
			assert.Equal(w, []any{"b", h.Token(), true}, []any{name, token, ok})
			bare(h.ContextFor(outer, "c"))
			bare(h.ContextFor(outer, ""))
			return nil
		}))
		assert.ErrorIs(w, h.Err(), lock.ErrReleased)
	})
}

// Each of Guards holds for as long as its name is held. Guard would leave names out, and is refused.
func TestTheGuardsOfASet(t *testing.T) {
	inBubble(t, func(w *fixture) {
		h := w.acquireAll(w.session(), lock.Exclusive("a"), lock.Exclusive("b"))
		require.Len(w, h.Guards(), 2)
		write := func() error {
			_, err := w.spare.KV().Txn(w.Context(), kv.Txn{Guards: h.Guards(), Then: []kv.Op{kv.Put("guarded", nil)}})
			return err
		}
		require.NoError(w, write())
		_, err := w.spare.KV().Txn(w.Context(), kv.Txn{Guards: []kv.Guard{h.Guard()}, Then: []kv.Op{kv.Put("guarded", nil)}})
		require.ErrorContains(w, err, "zero Guard")
		require.NoError(w, h.Confirm(w.Context()))
		require.NoError(w, h.Release(w.Context()))
		require.ErrorIs(w, write(), kv.ErrFenced)
		require.ErrorIs(w, h.Confirm(w.Context()), lock.ErrReleased)
	})
}

// Another process resumes a set as a whole, and undoes as a whole what was under way.
// rule: ML8
func TestASetIsResumedAsAWholeByAnotherProcess(t *testing.T) {
	inBubble(t, func(w *fixture) {
		s := w.session()
		all := []lock.Want{lock.Exclusive("a"), lock.Shared("b"), lock.Exclusive("c")}
		held := w.acquireAll(s, all...)
		open, _ := w.collecting(w.Context(), lock.NewMulti(s, lock.Options{}, lock.Exclusive("c"), lock.Exclusive("d")))
		handle := s.Detach()
		_, err := open()
		require.ErrorIs(w, err, lease.ErrClosed)
		assert.NotEmpty(w, w.f.Keys("d/"))
		next, err := w.client(pawl.Config{}).NewSession(w.Context(), lease.Options{Resume: handle})
		require.NoError(w, err)
		synctest.Wait()
		assert.Empty(w, w.f.Keys("d/"))
		m := lock.NewMulti(next, lock.Options{}, all...)
		h, err := m.Resume(w.Context(), held.Keys(), held.Token())
		require.NoError(w, err)
		assert.Equal(w, []any{held.Keys(), held.Token(), held.Names()}, []any{h.Keys(), h.Token(), h.Names()})
		_, err = m.Resume(w.Context(), held.Keys(), held.Token())
		require.ErrorContains(w, err, "resumed, in this process")
		w.f.Delete(h.Keys()[1])
		<-h.Done()
		require.ErrorIs(w, h.Err(), lock.ErrKeyDeleted)
		assert.ErrorContains(w, h.Err(), `of "b"`)
		require.ErrorIs(w, h.Release(w.Context()), lock.ErrLost)
		time.Sleep(time.Second)
		for _, name := range []string{"a/", "b/", "c/"} {
			assert.Empty(w, w.f.Keys(name))
		}
		_, err = m.Resume(w.Context(), held.Keys(), held.Token())
		require.ErrorIs(w, err, lock.ErrLost)
	})
}

// A set that lacks a key is not resumed. What is left of it is deleted one TTL later, as after a
// loss. A wrong token shows no loss.
// rule: ML6
func TestWhatIsLeftOfASetThatCannotBeResumedGoesAfterATTL(t *testing.T) {
	inBubble(t, func(w *fixture) {
		s := w.session()
		all := []lock.Want{lock.Exclusive("a"), lock.Exclusive("b")}
		held := w.acquireAll(s, all...)
		next, err := w.client(pawl.Config{}).NewSession(w.Context(), lease.Options{Resume: s.Detach()})
		require.NoError(w, err)
		m := lock.NewMulti(next, lock.Options{}, all...)
		_, err = m.Resume(w.Context(), held.Keys(), held.Token()+1)
		require.ErrorIs(w, err, lock.ErrLost)
		time.Sleep(2 * next.TTL())
		require.NotNil(w, w.f.Get(held.Keys()[1]))
		w.f.Delete(held.Keys()[0])
		_, err = m.Resume(w.Context(), held.Keys(), held.Token())
		require.ErrorIs(w, err, lock.ErrKeyDeleted)
		time.Sleep(next.TTL() - 1)
		require.NotNil(w, w.f.Get(held.Keys()[1]))
		time.Sleep(time.Second)
		assert.Nil(w, w.f.Get(held.Keys()[1]))
		require.NoError(w, next.Err())
	})
}

// Observers see the names, and String and LogValue contain them.
func TestTheNamesOfASetAreSeen(t *testing.T) {
	inBubble(t, func(w *fixture) {
		e := &recorder{}
		_, s := w.observedBy(e)
		h := w.acquireAll(s, lock.Shared("b"), lock.Exclusive("a"))
		assert.Equal(w, fmt.Sprintf(`locks "b", "a" (keys %q, token %d): held`, h.Keys(), h.Token()), h.String())
		assert.Contains(w, logged(h), "lock.held=true")
		q, err := lock.New(s, "a", lock.Options{}).Queue(w.Context())
		require.NoError(w, err)
		assert.Equal(w, h.Token(), q[0].Token)
		assert.NotEmpty(w, q[0].Owner)
		require.NoError(w, h.Release(w.Context()))
		got := of[observe.LockReleased](e.events())
		require.Len(w, got, 1)
		assert.Equal(w, []any{"b", []string{"b", "a"}, observe.Exclusive}, []any{got[0].Name, got[0].Names, got[0].Mode})
		assert.Contains(w, h.String(), "released")
		assert.Contains(w, logged(h), "lock.cause=released")
	})
}

// In etcd's layout a set excludes etcd's own clients, all or none.
func TestASetInEtcdsLayout(t *testing.T) {
	inBubble(t, func(w *fixture) {
		w.f.Put("a/1f", "", 0) // as etcdctl writes it
		m := lock.NewMulti(w.session(), lock.Options{EtcdLayout: true}, lock.Exclusive("a"), lock.Exclusive("b/c"))
		_, err := m.TryAcquire(w.Context())
		require.ErrorIs(w, err, lock.ErrBusy)
		got, waits := w.collecting(w.Context(), m)
		require.True(w, waits())
		assert.NotEmpty(w, w.f.Keys("b/c/"))
		w.f.Delete("a/1f")
		h, err := got()
		require.NoError(w, err)
		require.NoError(w, errors.Join(h.Err(), h.Release(w.Context())))
	})
}

// As many of the longest names as are allowed fit one request.
func TestASetOfTheLongestNames(t *testing.T) {
	inBubble(t, func(w *fixture) {
		var all []lock.Want
		for i := range lock.MaxNames {
			all = append(all, lock.Exclusive(fmt.Sprintf("%s%02d", strings.Repeat("/", 1022), i)))
		}
		s := w.session()
		first := w.acquireAll(s, all...)
		second := make(chan error, 1)
		go func() {
			h, err := lock.NewMulti(w.session(), lock.Options{}, all...).Acquire(w.Context())
			if err == nil {
				err = h.Release(w.Context())
			}
			second <- err
		}()
		synctest.Wait()
		require.NoError(w, first.Release(w.Context()))
		require.NoError(w, <-second)
	})
}
