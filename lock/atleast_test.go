package lock_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
)

// With AtLeast a release returns at once and sends nothing, and the key is deleted when its time
// has come.
func TestALockStaysTakenUntilItWasHeldForLongEnough(t *testing.T) {
	inBubble(t, func(w *fixture) {
		began := time.Now()
		h := w.acquireWith(w.session(), lock.Options{AtLeast: 30 * time.Second})
		next := w.waiting(w.session())
		time.Sleep(time.Second)
		before, now := w.f.Counts(), time.Now()
		require.NoError(w, h.Release(w.Context()))
		assert.Zero(w, time.Since(now))
		assert.Empty(w, w.f.Counts().Since(before).Received["Txn"])
		assert.ErrorIs(w, h.Err(), lock.ErrReleased)
		assert.NoError(w, h.Release(w.Context()), "the same answer")
		time.Sleep(time.Until(began.Add(30*time.Second - 1)))
		require.True(w, next.waits())
		w.release(next.won())
		assert.Less(w, time.Since(began), 30*time.Second+100*time.Millisecond)
		w.released(h)
		w.clear()
	})
}

// A lock that was held for long enough is released as usual.
func TestALockThatWasHeldForLongEnoughIsReleasedAtOnce(t *testing.T) {
	inBubble(t, func(w *fixture) {
		h := w.acquireWith(w.session(), lock.Options{AtLeast: 5 * time.Second})
		time.Sleep(5 * time.Second)
		w.release(h)
		assert.Empty(w, w.keys())
	})
}

// A Close of the session, or of the client, ends what AtLeast keeps, and waits for nothing else.
func TestACloseEndsWhatIsHeldForLongEnough(t *testing.T) {
	for name, end := range map[string]func(w *fixture, c *pawl.Client, s *pawl.Session) error{
		"session": func(w *fixture, _ *pawl.Client, s *pawl.Session) error { return s.Close(w.Context()) },
		"client":  func(_ *fixture, c *pawl.Client, _ *pawl.Session) error { return c.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *fixture) {
				c := w.client(pawl.Config{})
				s, err := c.Session(w.Context())
				require.NoError(w, err)
				h := w.acquireWith(s, lock.Options{AtLeast: time.Hour})
				require.NoError(w, h.Release(w.Context()))
				began := time.Now()
				require.NoError(w, end(w, c, s))
				assert.Less(w, time.Since(began), time.Second)
				assert.Empty(w, w.keys())
				assert.ErrorIs(w, h.Err(), lock.ErrReleased)
			})
		})
	}
}

// What happens to the key does not change a lock that was released.
func TestAReleasedLockStaysReleasedWhateverBecomesOfItsKey(t *testing.T) {
	inBubble(t, func(w *fixture) {
		s := w.session()
		h := w.acquireWith(s, lock.Options{AtLeast: 10 * time.Second})
		require.NoError(w, h.Release(w.Context()))
		w.f.Delete(h.Key())
		time.Sleep(time.Second)
		synctest.Wait()
		other := w.acquire(s)
		time.Sleep(time.Minute)
		w.released(h)
		assert.NoError(w, h.Release(w.Context()))
		w.held(other)
	})
}

// A hold that was too long also keeps its key until AtLeast has passed.
func TestAHoldThatWasTooLongStaysTakenForLongEnough(t *testing.T) {
	inBubble(t, func(w *fixture) {
		began := time.Now()
		h := w.acquireWith(w.session(), lock.Options{MaxHold: time.Second, AtLeast: 10 * time.Second})
		next := w.waiting(w.session())
		<-h.Done()
		assert.Equal(w, time.Second, time.Since(began))
		w.release(next.won())
		assert.GreaterOrEqual(w, time.Since(began), 10*time.Second)
	})
}

// A takeover changes nothing. A released lock stays taken until its time has come, and does not
// delay the takeover. So does a lock that is held, whatever the options of its Resume.
// rule: N6
func TestALockStaysTakenForLongEnoughWhoeverTakesItsSessionOver(t *testing.T) {
	for name, atLeast := range map[string]time.Duration{"released before": -1, "resumed and released": 0, "resumed with less, and released": time.Second} {
		first := atLeast < 0
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *fixture) {
				time.Sleep(300 * time.Microsecond) // a Handle's times are in milliseconds
				began := time.Now()
				s := w.session()
				h := w.acquireWith(s, lock.Options{AtLeast: 30 * time.Second})
				next := w.waiting(w.session())
				if first {
					require.NoError(w, h.Release(w.Context()))
				}
				for range 2 { // two takeovers, the second by a session that did not begin it
					time.Sleep(3 * time.Second)
					handle := s.Detach()
					time.Sleep(2 * time.Second)
					now := time.Now()
					var err error
					s, err = w.client(pawl.Config{}).NewSession(w.Context(), lease.Options{Resume: handle})
					require.NoError(w, err)
					assert.Less(w, time.Since(now), time.Second)
				}
				if !first {
					r, err := lock.New(s, "name", lock.Options{AtLeast: atLeast}).Resume(w.Context(), h.Key(), h.Token())
					require.NoError(w, err)
					time.Sleep(2 * atLeast) // longer than it asks for itself
					require.NoError(w, r.Release(w.Context()))
				}
				time.Sleep(time.Until(began.Add(30*time.Second - 1)))
				require.True(w, next.waits())
				w.release(next.won())
				assert.Less(w, time.Since(began), 30*time.Second+100*time.Millisecond)
				w.clear()
			})
		})
	}
}

// What is only kept is not held: a try of the session that released it says so, and for how long.
func TestATryBehindAKeyThatIsOnlyKeptSaysForHowLong(t *testing.T) {
	inBubble(t, func(w *fixture) {
		s := w.session()
		h := w.acquireWith(s, lock.Options{AtLeast: 10 * time.Second})
		time.Sleep(3 * time.Second)
		_, err := mutex(s).TryAcquire(w.Context())
		require.ErrorIs(w, err, lock.ErrBusy)
		assert.ErrorContains(w, err, "held by")
		require.NoError(w, h.Release(w.Context()))
		_, err = mutex(s).TryAcquire(w.Context())
		require.ErrorIs(w, err, lock.ErrBusy)
		assert.ErrorContains(w, err, "stays for 7s more")
		assert.NotContains(w, err.Error(), "held by")
		_, err = mutex(w.session()).TryAcquire(w.Context())
		assert.ErrorContains(w, err, "held by", "another session does not know")
	})
}
