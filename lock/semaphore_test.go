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
	"github.com/pawl-locks/pawl/lock"
	"github.com/pawl-locks/pawl/observe"
)

func semaphore(s pawl.Sessions, limit int) *lock.Semaphore {
	return lock.NewSemaphore(s, "name", limit, lock.Options{})
}

func (w *fixture) permit(s *pawl.Session, limit int) *lock.Held {
	w.Helper()
	p, err := semaphore(s, limit).Acquire(w.Context())
	require.NoError(w, err)
	require.NoError(w, p.Err())
	return p
}

// permitCall is an Acquire of a permit under way.
type permitCall struct {
	w    *fixture
	p    *lock.Held
	err  error
	done chan struct{}
}

func (w *fixture) permitting(ctx context.Context, s *pawl.Session, limit int) *permitCall {
	a := &permitCall{w: w, done: make(chan struct{})}
	go func() {
		defer close(a.done)
		a.p, a.err = semaphore(s, limit).Acquire(ctx)
	}()
	synctest.Wait()
	return a
}

func (a *permitCall) won() *lock.Held {
	a.w.Helper()
	<-a.done
	require.NoError(a.w, a.err)
	return a.p
}

func TestBadArgumentsOfASemaphoreAreClearErrors(t *testing.T) {
	inBubble(t, func(w *fixture) {
		s := w.session()
		synctest.Wait()
		before := w.f.Counts()
		for want, m := range map[string]*lock.Semaphore{
			"nil session":    lock.NewSemaphore(nil, "name", 1, lock.Options{}),
			"empty name":     lock.NewSemaphore(s, "", 1, lock.Options{}),
			"at most 1008":   lock.NewSemaphore(s, strings.Repeat("x", 1009), 1, lock.Options{}),
			"the limit is 0": lock.NewSemaphore(s, "name", 0, lock.Options{}),
			"want 1 to 1000": lock.NewSemaphore(s, "name", 1001, lock.Options{}),
			"EtcdLayout":     lock.NewSemaphore(s, "name", 1, lock.Options{EtcdLayout: true}),
			"MaxHold":        lock.NewSemaphore(s, "name", 1, lock.Options{MaxHold: -1}),
			"AtLeast":        lock.NewSemaphore(s, "name", 1, lock.Options{AtLeast: -1}),
			"at most 1024":   lock.NewSemaphore(s, "name", 1, lock.Options{Owner: strings.Repeat("x", 1025)}),
			"//pawl/slot/":   lock.NewSemaphore(s, "//pawl/slot/1/a", 1, lock.Options{}),
			"or Semaphore":   nil,
		} {
			_, err := m.Acquire(w.Context())
			assert.ErrorContains(w, err, want)
			_, err = m.TryAcquire(w.Context())
			assert.ErrorContains(w, err, want)
			_, err = m.Resume(w.Context(), "k", 1)
			assert.ErrorContains(w, err, want)
			_, err = m.Queue(w.Context())
			assert.ErrorContains(w, err, want)
			assert.ErrorContains(w, m.Do(w.Context(), func(context.Context, *lock.Held) error { return nil }), want)
		}
		assert.ErrorContains(w, semaphore(s, 1).Do(w.Context(), nil), "nil function")
		assert.Empty(w, w.f.Counts().Since(before).Received)
	})
}

// A permit is a Held of a slot.
func TestAPermitSaysWhatItHolds(t *testing.T) {
	inBubble(t, func(w *fixture) {
		s := w.session()
		m := semaphore(s, 3)
		require.NoError(w, m.Do(w.Context(), func(ctx context.Context, p *lock.Held) error {
			assert.Equal(w, []any{0, "name", s}, []any{p.Slot(), p.Name(), p.Session()})
			assert.Equal(w, int64(p.Token()), w.f.Get(p.Key()).CreateRevision)
			resource, token, ok := fencing.FromContext(ctx)
			assert.Equal(w, []any{"//pawl/slot/0/name", p.Token(), true}, []any{resource, token, ok})
			assert.NoError(w, p.Confirm(ctx))
			assert.Contains(w, p.String(), "slot 0 of semaphore \"name\"")
			assert.Contains(w, p.LogValue().String(), "slot=0")
			assert.True(w, p.Deadline().After(time.Now()))
			q, err := m.Queue(ctx)
			assert.NoError(w, err)
			if assert.Len(w, q, 1) {
				assert.Equal(w, []any{lock.ModeSlot, 0}, []any{q[0].Mode, q[0].Slot})
			}
			return nil
		}))
		assert.Empty(w, w.keys())
	})
}

// An observer's events contain the slot, once there is one.
func TestTheEventsOfAPermitCarryItsSlot(t *testing.T) {
	inBubble(t, func(w *fixture) {
		e := &recorder{}
		_, s := w.observedBy(e)
		first := w.permit(s, 2)
		p := w.permit(s, 2)
		require.NoError(w, p.Release(w.Context()))
		all := e.events()
		in, won, out := of[observe.LockEnqueued](all)[1], of[observe.LockAcquired](all)[1], of[observe.LockReleased](all)[0]
		assert.Equal(w, []any{observe.Semaphore, -1, fencing.Token(0)}, []any{in.Mode, in.Slot, in.Token})
		assert.Equal(w, []any{observe.Semaphore, 1, p.Token(), p.Key(), observe.Free}, []any{won.Mode, won.Slot, won.Token, won.Key, won.How})
		assert.Equal(w, []any{1, p.Key(), in.ID}, []any{out.Slot, out.Key, out.ID})
		require.NoError(w, first.Release(w.Context()))
	})
}
