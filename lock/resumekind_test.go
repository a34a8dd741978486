package lock_test

import (
	"context"
	"testing"
	"time"

	"github.com/pawl-locks/pawl/elect"
	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
)

// A key is resumed only as what it was acquired as. Otherwise the error says so, and it can still
// be resumed correctly afterwards.
// rule: N6
func TestAKeyIsResumedAsWhatItWasAcquiredAs(t *testing.T) {
	inBubble(t, func(w *fixture) {
		s := w.session()
		opts := lock.Options{}
		wants := []lock.Want{lock.Exclusive("a"), lock.Shared("b"), lock.Exclusive("c")}
		set := w.acquireAll(s, wants...)
		plain, err := lock.New(s, "plain", opts).Acquire(w.Context())
		require.NoError(w, err)
		shared, err := lock.New(s, "shared", opts).AcquireShared(w.Context())
		require.NoError(w, err)
		permit, err := lock.NewSemaphore(s, "permits", 2, opts).Acquire(w.Context())
		require.NoError(w, err)
		term, err := elect.New(s, "term", elect.Options{}).Campaign(w.Context(), []byte("a"))
		require.NoError(w, err)
		require.NoError(w, term.Proclaim(w.Context(), []byte("b")))
		single, err := lock.NewMulti(s, opts, lock.Exclusive("single")).Acquire(w.Context())
		require.NoError(w, err)
		before := w.f.Keys("")

		next, err := w.spare.NewSession(w.Context(), lease.Options{Resume: s.Detach()})
		require.NoError(w, err)
		ctx := w.Context()
		asMutex := func(name, key string, t fencing.Token) error {
			h, err := lock.New(next, name, opts).Resume(ctx, key, t)
			assert.Nil(w, h)
			return err
		}
		asPermit := func(name, key string, t fencing.Token) error {
			p, err := lock.NewSemaphore(next, name, 2, opts).Resume(ctx, key, t)
			assert.Nil(w, p)
			return err
		}
		asSet := func(t fencing.Token, keys []string, wants ...lock.Want) error {
			h, err := lock.NewMulti(next, opts, wants...).Resume(ctx, keys, t)
			assert.Nil(w, h)
			return err
		}
		asTerm := func(name, key string, t fencing.Token) error {
			l, err := elect.New(next, name, elect.Options{}).Resume(ctx, key, t)
			assert.Nil(w, l)
			return err
		}
		for what, try := range map[string]func() error{
			"the first of a set":       func() error { return asMutex("a", set.Keys()[0], set.Token()) },
			"another of a set":         func() error { return asMutex("b", set.Keys()[1], set.Token()) },
			"one of a set, as a set":   func() error { return asSet(set.Token(), set.Keys()[2:], wants[2]) },
			"two of a set":             func() error { return asSet(set.Token(), set.Keys()[:2], wants[:2]...) },
			"one of a set, as a term":  func() error { return asTerm("a", set.Keys()[0], set.Token()) },
			"a permit":                 func() error { return asMutex("permits", permit.Key(), permit.Token()) },
			"a permit, as a term":      func() error { return asTerm("permits", permit.Key(), permit.Token()) },
			"a permit, as a set":       func() error { return asSet(permit.Token(), []string{permit.Key()}, lock.Exclusive("permits")) },
			"a term":                   func() error { return asMutex("term", term.Key(), term.Token()) },
			"a term, as a permit":      func() error { return asPermit("term", term.Key(), term.Token()) },
			"a lock, as a permit":      func() error { return asPermit("plain", plain.Key(), plain.Token()) },
			"a lock, as a term":        func() error { return asTerm("plain", plain.Key(), plain.Token()) },
			"a shared lock, as a term": func() error { return asTerm("shared", shared.Key(), shared.Token()) },
		} {
			err := try()
			require.Error(w, err, what)
			assert.NotErrorIs(w, err, lock.ErrLost, what)
		}
		time.Sleep(time.Minute)
		assert.Equal(w, before, w.f.Keys(""), "all of it is still there")

		h, err := lock.NewMulti(next, opts, wants...).Resume(ctx, set.Keys(), set.Token())
		require.NoError(w, err)
		m, err := lock.New(next, "plain", opts).Resume(ctx, plain.Key(), plain.Token())
		require.NoError(w, err)
		r, err := lock.New(next, "shared", opts).Resume(ctx, shared.Key(), shared.Token())
		require.NoError(w, err)
		p, err := lock.NewSemaphore(next, "permits", 2, opts).Resume(ctx, permit.Key(), permit.Token())
		require.NoError(w, err)
		l, err := elect.New(next, "term", elect.Options{}).Resume(ctx, term.Key(), term.Token())
		require.NoError(w, err)
		one, err := lock.New(next, "single", opts).Resume(ctx, single.Keys()[0], single.Token())
		require.NoError(w, err, "a set of one is a lock")
		for _, release := range []func(context.Context) error{h.Release, m.Release, r.Release, p.Release, l.Resign, one.Release} {
			require.NoError(w, release(ctx))
		}
		for _, name := range []string{"a/", "b/", "c/", "plain/", "shared/", "//pawl/sem/", "term/", "single/"} {
			assert.Empty(w, w.f.Keys(name))
		}
	})
}

// A key that somebody else wrote to and took off its lease before it was resumed is lost, whatever
// it looks like by then. It is removed, because no lease would ever end it.
func TestAKeyThatWasOverwrittenBeforeItIsResumedIsRemoved(t *testing.T) {
	for _, value := range []string{"x", `{"pawl":"lock","owner":"eve"}`} {
		inBubble(t, func(w *fixture) {
			s := w.session()
			h, err := lock.New(s, "a", lock.Options{}).Acquire(w.Context())
			require.NoError(w, err)
			handle := s.Detach()
			w.f.Put(h.Key(), value, 0)
			next, err := w.spare.NewSession(w.Context(), lease.Options{Resume: handle})
			require.NoError(w, err)
			got, err := lock.New(next, "a", lock.Options{}).Resume(w.Context(), h.Key(), h.Token())
			assert.Nil(w, got)
			require.ErrorIs(w, err, lock.ErrLost)
			require.ErrorIs(w, err, lock.ErrKeyOverwritten)
			time.Sleep(time.Minute)
			assert.Empty(w, w.f.Keys("a/"))
			require.NoError(w, next.Err())
		})
	}
}
