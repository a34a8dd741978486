package lock_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/kv"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
)

// Hazards A20, H9: wrong arguments are reported at once, and nothing is sent.
func TestBadArgumentsAreClearErrors(t *testing.T) {
	inBubble(t, func(w *fixture) {
		s := w.session()
		synctest.Wait()
		before := w.f.Counts()
		for want, m := range map[string]*lock.Mutex{
			"nil session":        lock.New(nil, "name", lock.Options{}),
			"empty name":         lock.New(s, "", lock.Options{}),
			"at most 1024":       lock.New(s, strings.Repeat("x", 1025), lock.Options{}),
			"AtLeast":            lock.New(s, "name", lock.Options{AtLeast: -1}),
			"MaxHold":            lock.New(s, "name", lock.Options{MaxHold: -1}),
			"sessions' own keys": lock.New(s, "//pawl", lock.Options{EtcdLayout: true}),
			"nil Mutex":          nil,
		} {
			_, err := m.Acquire(w.Context())
			assert.ErrorContains(w, err, want)
			_, err = m.TryAcquire(w.Context())
			assert.ErrorContains(w, err, want)
			_, err = m.Resume(w.Context(), "k", 1)
			assert.ErrorContains(w, err, want)
			assert.ErrorContains(w, m.Do(w.Context(), func(context.Context, *lock.Held) error { return nil }), want)
		}
		var none context.Context
		_, err := mutex(s).Acquire(none)
		assert.ErrorContains(w, err, "nil context")
		_, err = (&lock.Mutex{}).Acquire(w.Context())
		assert.ErrorContains(w, err, "nil session")
		_, err = lock.New(&pawl.Session{}, "name", lock.Options{}).Acquire(w.Context())
		assert.ErrorContains(w, err, "nil session")
		assert.ErrorContains(w, mutex(s).Do(w.Context(), nil), "nil function")
		_, err = mutex(s).Acquire(over(w.Context()))
		assert.ErrorIs(w, err, context.Canceled)
		assert.Empty(w, w.f.Counts().Since(before).Received)
		_, err = lock.New(s, strings.Repeat("/", 1024), lock.Options{}).TryAcquire(w.Context())
		assert.NoError(w, err, "the longest name")
	})
}

// listContext is a context that cannot be compared with another.
type listContext struct {
	context.Context
	_ []int
}

// Hazard S18: a context may be of any type.
func TestAContextThatCannotBeComparedIsTaken(t *testing.T) {
	inBubble(t, func(w *fixture) {
		ctx := listContext{Context: w.Context()}
		s, err := w.client(pawl.Config{}).NewSession(ctx, lease.Options{})
		require.NoError(w, err)
		h, err := mutex(s).Acquire(ctx)
		require.NoError(w, err)
		w.held(h)
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, err = mutex(s).Acquire(listContext{Context: short})
		assert.ErrorIs(w, err, context.DeadlineExceeded)
		_, err = mutex(s).TryAcquire(ctx)
		assert.ErrorIs(w, err, lock.ErrBusy)
		require.NoError(w, h.Confirm(ctx))
		require.NoError(w, h.Do(ctx, func(context.Context) error { return nil }))
		require.NoError(w, h.Release(ctx))
		require.NoError(w, s.Close(ctx))
		w.clear()
	})
}

// What two bubbles share must be made outside of any bubble.
func TestANilOrZeroHeldIsNotHeld(t *testing.T) {
	for range 2 {
		inBubble(t, notHeld)
	}
}

func notHeld(w *fixture) {
	for _, h := range []*lock.Held{nil, {}} {
		assert.ErrorContains(w, h.Err(), "not held")
		assert.Zero(w, h.Token())
		assert.Zero(w, h.Key())
		assert.Zero(w, h.Name())
		assert.Empty(w, h.Names())
		assert.Empty(w, h.Keys())
		assert.Equal(w, -1, h.Slot())
		assert.Zero(w, h.Deadline())
		assert.True(w, isClosed(h.Done()))
		assert.Error(w, h.Context().Err())
		_, _, ok := fencing.FromContext(h.Context())
		assert.False(w, ok)
		assert.Error(w, h.Release(w.Context()))
		assert.Error(w, h.Confirm(w.Context()))
		assert.Error(w, h.Do(w.Context(), func(context.Context) error { w.Error("called"); return nil }))
		_, err := w.spare.KV().Txn(w.Context(), kv.Txn{Guards: []kv.Guard{h.Guard()}, Then: []kv.Op{kv.Put("k", nil)}})
		assert.ErrorContains(w, err, "zero Guard")
	}
}

func TestDoWithANilFunctionStillReleases(t *testing.T) {
	inBubble(t, func(w *fixture) {
		h := w.acquire(w.session())
		assert.ErrorContains(w, h.Do(w.Context(), nil), "nil function")
		w.released(h)
		w.clear()
	})
}

// TokenFloor refuses before any wait, and nothing stays.
func TestATokenAtTheFloorIsRefusedBeforeWaiting(t *testing.T) {
	inBubble(t, func(w *fixture) {
		h := w.acquire(w.session())
		s, err := w.client(pawl.Config{TokenFloor: 1000}).Session(w.Context())
		require.NoError(w, err)
		began := time.Now()
		_, err = mutex(s).Acquire(w.Context())
		assert.ErrorIs(w, err, pawl.ErrTokenFloor)
		assert.Zero(w, time.Since(began))
		synctest.Wait()
		assert.Len(w, w.keys(), 1)
		w.release(h)
		_, err = mutex(s).TryAcquire(w.Context())
		assert.ErrorIs(w, err, pawl.ErrTokenFloor)
		synctest.Wait() // its key is removed in the background, at another revision
		for w.f.Revision() < 1000 {
			w.f.Put("other", "", 0)
		}
		h, err = mutex(s).Acquire(w.Context())
		require.NoError(w, err)
		assert.Equal(w, fencing.Token(1001), h.Token())
		w.release(h)
		w.clear()
	})
}

func TestTheFloorItselfIsRefusedAndOneAboveIsNot(t *testing.T) {
	for floor, ok := range map[fencing.Token]bool{3: true, 4: false} { // the key is created at 4
		inBubble(t, func(w *fixture) {
			s, err := w.client(pawl.Config{TokenFloor: floor}).Session(w.Context())
			require.NoError(w, err)
			w.f.Put("other", "", 0)
			require.Equal(w, int64(3), w.f.Revision())
			h, err := mutex(s).Acquire(w.Context())
			if ok {
				require.NoError(w, err)
				assert.Equal(w, floor+1, h.Token())
			} else {
				assert.ErrorIs(w, err, pawl.ErrTokenFloor)
			}
		})
	}
}

// A name without a slash is the same queue in both layouts. A waiter in etcd's layout receives no
// handoff, because it takes a put on its key for an overwriting.
func TestBothLayoutsShareAQueueAndHandItOver(t *testing.T) {
	inBubble(t, func(w *fixture) {
		etcds := func(s *pawl.Session) *lock.Mutex { return lock.New(s, "name", lock.Options{EtcdLayout: true}) }
		first := w.acquire(w.session())
		second := w.waiting(w.session()) // queries who is first, so it knows who is behind
		third := w.acquiring(w.Context(), etcds(w.session()))
		fourth := w.waiting(w.session())
		time.Sleep(time.Second)
		w.release(first)
		w.release(second.won())
		h := third.won()
		require.NoError(w, h.Confirm(w.Context()))
		w.release(h)
		w.release(fourth.won())
	})
}

func TestTheNamespaceIsPutBeforeTheKeys(t *testing.T) {
	inBubble(t, func(w *fixture) {
		s, err := w.client(pawl.Config{Namespace: "team/"}).Session(w.Context())
		require.NoError(w, err)
		h, err := mutex(s).Acquire(w.Context())
		require.NoError(w, err)
		assert.True(w, strings.HasPrefix(h.Key(), "team/name/"), h.Key())
		w.held(w.acquire(w.session()))
	})
}

// Hazard A13: Resume takes over the lock of a session that was handed over, with its token.
// rule: K1
func TestResumeTakesOverALock(t *testing.T) {
	inBubble(t, func(w *fixture) {
		s := w.session()
		h, lost := w.acquire(s), w.acquireName(s, "lost")
		w.f.Inject(quietWatches)
		w.f.Delete(lost.Key())
		other := w.session()
		handle := s.Detach()
		w.lostBy(lease.ErrClosed, h)
		next, err := w.spare.NewSession(w.Context(), lease.Options{Resume: handle})
		require.NoError(w, err)
		m := mutex(next)

		for want, try := range map[string]func() (*lock.Held, error){
			"is none":      func() (*lock.Held, error) { return m.Resume(w.Context(), h.Key(), 0) },
			"not one of":   func() (*lock.Held, error) { return m.Resume(w.Context(), "name/x", h.Token()) },
			"not one of ":  func() (*lock.Held, error) { return mutex(other).Resume(w.Context(), h.Key(), h.Token()) },
			"nil context":  func() (*lock.Held, error) { var none context.Context; return m.Resume(none, h.Key(), h.Token()) },
			"is not there": func() (*lock.Held, error) { return m.Resume(w.Context(), h.Key(), h.Token()+1) },
		} {
			r, err := try()
			assert.Nil(w, r)
			assert.ErrorContains(w, err, strings.TrimSpace(want))
		}
		_, err = lock.New(next, "lost", lock.Options{}).Resume(w.Context(), lost.Key(), lost.Token())
		assert.ErrorIs(w, err, lock.ErrLost)
		w.oneCause(lock.ErrKeyDeleted, err)

		a := w.waiting(other)
		r, err := m.Resume(w.Context(), h.Key(), h.Token())
		require.NoError(w, err)
		w.held(r)
		assert.Equal(w, []any{h.Key(), h.Token(), h.Name()}, []any{r.Key(), r.Token(), r.Name()})
		_, err = m.Resume(w.Context(), h.Key(), h.Token())
		assert.Error(w, err, "one key, one Held")
		assert.NotErrorIs(w, err, lock.ErrLost)
		time.Sleep(time.Minute)
		w.held(r)
		w.release(r)
		_, err = m.Resume(w.Context(), h.Key(), h.Token())
		assert.ErrorIs(w, err, lock.ErrLost)
		w.release(a.won())
	})
}

// What a live Held of this very session holds cannot be resumed.
func TestResumeOfALiveLockIsRefused(t *testing.T) {
	inBubble(t, func(w *fixture) {
		s := w.session()
		h := w.acquire(s)
		r, err := mutex(s).Resume(w.Context(), h.Key(), h.Token())
		assert.Error(w, err)
		assert.Nil(w, r)
		w.held(h)
	})
}

// A key that only waited when the session was handed over is undone, not resumed.
func TestAWaitersKeyIsNotResumed(t *testing.T) {
	inBubble(t, func(w *fixture) {
		first := w.acquire(w.session())
		s := w.session()
		a := w.waiting(s)
		key := ""
		for _, k := range w.keys() {
			if k != first.Key() {
				key = k
			}
		}
		token := fencing.Token(w.f.Get(key).CreateRevision)
		handle := s.Detach()
		w.oneCause(lease.ErrClosed, a.failed())
		next, err := w.spare.NewSession(w.Context(), lease.Options{Resume: handle})
		require.NoError(w, err)
		assert.Equal(w, []string{first.Key()}, w.keys())
		_, err = mutex(next).Resume(w.Context(), key, token)
		assert.ErrorIs(w, err, lock.ErrLost)
		w.release(first)
		w.clear()
	})
}

// An error names the lock, but does not quote an overlong name whole.
func TestAnOverLongNameIsNotQuotedWhole(t *testing.T) {
	inBubble(t, func(w *fixture) {
		_, err := lock.New(w.session(), strings.Repeat("\x00", 1<<20), lock.Options{}).Acquire(w.Context())
		require.Error(w, err)
		assert.Less(w, len(err.Error()), 1<<10)
		assert.Contains(w, err.Error(), "at most 1024")
	})
}
