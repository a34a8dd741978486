package queue

import (
	"context"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/pawl-locks/pawl/internal/queue/state"
	"github.com/pawl-locks/pawl/internal/session"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/lease"
)

// standing is a dependent whose callers take for ever to be notified.
type standing struct{ until chan struct{} }

func (standing) Reads() []session.Read { return nil }
func (standing) Arm()                  {}
func (standing) HoldExpired()          {}
func (standing) End(error)             {}
func (s standing) Ended()              { <-s.until }

// awaitMutex returns once a goroutine waits for a mutex inside of method, of Acquisition.
func awaitMutex(method string) {
	waits := func(stack string) bool {
		return strings.Contains(stack, "sync.(*Mutex).Lock") && strings.Contains(stack, "(*Acquisition)."+method+"(")
	}
	for all := make([]byte, 1<<20); !slices.ContainsFunc(strings.Split(string(all[:runtime.Stack(all, true)]), "\n\n"), waits); {
		runtime.Gosched()
	}
}

// meeting is a standing dependent that is marked once somebody else has found the end of the session, and waits
// for the mutex.
type meeting struct {
	standing
	find func()
}

func (m meeting) End(error) {
	go m.find()
	awaitMutex("Err")
}

// H1: so does who finds the session's end while it is being marked for all that it has.
// rule: H1
func TestWhoFindsTheEndOfItsSessionWhileItIsMarkedTellsItsOwnCallers(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(w *fixture) {
		s, found := w.session(), make(chan error, 1)
		var a *Acquisition
		first := meeting{standing{make(chan struct{})}, func() { found <- a.Err() }}
		defer close(first.until)
		require.NoError(w, s.Join(&session.Entry{}, first))
		a = w.acquire(s)
		done, ctx := a.Done(), a.Context()
		go s.CloseInBackground()
		require.ErrorIs(w, <-found, lease.ErrClosed)
		assert.True(w, isClosed(done))
		assert.ErrorIs(w, context.Cause(ctx), lease.ErrClosed)
	})
}

// H1: and so does a release that finds a loss which nobody has told yet.
// rule: H1
func TestAReleaseThatMeetsALossTellsItsOwnCallers(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(w *fixture) {
		a, found := w.acquire(w.session()), make(chan error, 1)
		done, ctx := a.Done(), a.Context()
		a.mu.Lock()
		go func() { found <- a.Release(w.Context(), errGivenBack) }()
		awaitMutex("markReleased")
		did := a.step(state.OwnDeleted{}, nil)
		a.mu.Unlock()
		require.ErrorIs(w, <-found, ErrKeyDeleted)
		assert.True(w, isClosed(done))
		assert.ErrorIs(w, context.Cause(ctx), ErrKeyDeleted)
		a.carryOut(did)
	})
}

// H1: and one that learns from another release that it was lost before.
// rule: H1
func TestAReleaseThatLearnsOfALossFromAnotherTellsItsOwnCallers(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(w *fixture) {
		a, found := w.acquire(w.session()), make(chan error, 1)
		ctx := a.Context()
		_, err := a.markReleased(errGivenBack) // it has the turn
		require.NoError(w, err)
		go func() { found <- a.Release(w.Context(), errGivenBack) }()
		synctest.Wait()
		a.mu.Lock()
		did := a.step(state.Explained{Remains: state.Remains{Gone: 1}}, ErrKeyDeleted)
		a.deleting.leave()
		a.mu.Unlock()
		require.ErrorIs(w, <-found, ErrKeyDeleted)
		assert.ErrorIs(w, context.Cause(ctx), ErrKeyDeleted)
		a.carryOut(did)
	})
}

// H1: the end of a session is marked for all that it has at once, and who finds it tells its own callers, though
// the one who marked it has not come to them yet.
// rule: H1
func TestWhoFindsTheEndOfItsSessionTellsItsOwnCallers(t *testing.T) {
	for name, find := range map[string]func(a *Acquisition){
		"Err":     func(a *Acquisition) { require.ErrorIs(t, a.Err(), lease.ErrClosed) },
		"Done":    func(a *Acquisition) { assert.True(t, isClosed(a.Done())) },
		"Context": func(a *Acquisition) { assert.Error(t, a.Context().Err()) },
		"Do": func(a *Acquisition) {
			assert.ErrorIs(t, a.Do(context.Background(), errGivenBack, nil), lease.ErrClosed)
		},
		"Release": func(a *Acquisition) {
			assert.ErrorIs(t, a.Release(context.Background(), errGivenBack), lease.ErrClosed)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, etcdfake.Options{}, func(w *fixture) {
				s, first := w.session(), standing{make(chan struct{})}
				defer close(first.until)
				require.NoError(w, s.Join(&session.Entry{}, first)) // those that wait are notified before those that hold
				a := w.acquire(s)
				done, ctx := a.Done(), a.Context()
				bound, unbind := a.Bind(w.Context())
				defer unbind()
				go s.CloseInBackground()
				synctest.Wait()
				require.False(w, isClosed(done), "the one who marked it stands still")
				find(a)
				assert.True(w, isClosed(done))
				assert.ErrorIs(w, context.Cause(ctx), lease.ErrClosed)
				assert.ErrorIs(w, context.Cause(bound), lease.ErrClosed)
			})
		})
	}
}
