package lock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
)

func TestAMutexOfAClientUsesTheSessionOfItsTime(t *testing.T) {
	inBubble(t, func(w *fixture) {
		c := w.client(pawl.Config{})
		m := lock.New(c, "name", lock.Options{})
		first, err := m.Acquire(w.Context())
		require.NoError(w, err)
		w.held(first)
		own, err := c.Session(w.Context())
		require.NoError(w, err)
		assert.Same(w, own, first.Session(), "the client's own, shared")

		w.f.Revoke(own.ID())
		<-first.Done()
		w.oneCause(lease.ErrRevoked, first.Err())
		assert.Same(w, own, first.Session(), "it stays the same after the end")
		second, err := m.TryAcquire(w.Context())
		require.NoError(w, err, "the Mutex is of use again")
		assert.NotEqual(w, own.ID(), second.Session().ID())
		require.NoError(w, second.Session().Err())
		w.release(second)
		w.clear()
	})
}

func TestAMutexOfASessionEndsWithIt(t *testing.T) {
	inBubble(t, func(w *fixture) {
		s := w.session()
		m := mutex(s)
		h := w.acquire(s)
		assert.Same(w, s, h.Session())
		require.NoError(w, s.Close(w.Context()))
		_, err := m.Acquire(w.Context())
		w.oneCause(lease.ErrClosed, err)
		var none *lock.Held
		assert.Nil(w, none.Session())
		assert.Nil(w, (&lock.Held{}).Session())
	})
}

// Invalid arguments are reported before a session is granted.
func TestNoSessionIsGrantedForBadArguments(t *testing.T) {
	inBubble(t, func(w *fixture) {
		c := w.client(pawl.Config{})
		synctest.Wait() // what clients query for themselves has been sent
		before := w.f.Counts()
		_, err := lock.New(c, "", lock.Options{}).Acquire(w.Context())
		assert.ErrorContains(w, err, "empty name")
		_, err = lock.New(c, "name", lock.Options{}).Acquire(over(w.Context()))
		assert.ErrorIs(w, err, context.Canceled)
		assert.Empty(w, w.f.Counts().Since(before).Received)
	})
}

// sessions are a caller's implementation of pawl.Sessions.
type sessions struct {
	s   *pawl.Session
	err error
}

func (s sessions) Session(context.Context) (*pawl.Session, error) { return s.s, s.err }

func TestAcquireReportsWhyThereIsNoSession(t *testing.T) {
	inBubble(t, func(w *fixture) {
		failure := errors.New("no session today")
		_, err := lock.New(sessions{err: failure}, "name", lock.Options{}).Acquire(w.Context())
		assert.ErrorIs(w, err, failure)
		assert.ErrorContains(w, err, `lock: acquire "name"`)
		_, err = lock.New(sessions{}, "name", lock.Options{}).Acquire(w.Context())
		assert.ErrorContains(w, err, "nil session")
	})
}

// The call's context also bounds the granting of a session.
func TestAcquireOfAClientEndsWithItsContextWhileNobodyAnswers(t *testing.T) {
	inBubble(t, func(w *fixture) {
		c := w.client(pawl.Config{})
		w.f.BlackHole()
		ctx, cancel := context.WithTimeout(w.Context(), time.Second)
		defer cancel()
		a := w.acquiring(ctx, lock.New(c, "name", lock.Options{}))
		assert.ErrorIs(w, a.failed(), context.DeadlineExceeded)
		assert.LessOrEqual(w, a.took, 1100*time.Millisecond)
		w.f.Heal()
	})
}
