package lock_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/internal/hooks"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
)

var errForfeit = errors.New("its client is gone")

// V4: whatever ended the hold, its key is there a nanosecond before the end of what was promised of
// it, and gone soon after that, even if more was promised of another hold.
// rule: V4
func TestAKeyIsNotDeletedBeforeWhatWasPromised(t *testing.T) {
	for name, end := range map[string]func(w *fixture, h *lock.Held){
		"forfeited":   func(_ *fixture, h *lock.Held) { hooks.KeeperOfHeld(h).Forfeit(errForfeit) },
		"overwritten": func(w *fixture, h *lock.Held) { w.f.Put(h.Key(), "x", int64(h.Session().ID())) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *fixture) {
				s := w.session()
				h := w.acquire(s)
				time.Sleep(time.Minute) // its watch is armed
				begin := clock.Now()
				other := w.acquireNamed(s, "other")
				require.NoError(w, hooks.KeeperOfHeld(other).Promise(begin.Add(10*time.Second)))
				require.NoError(w, hooks.KeeperOfHeld(h).Promise(begin.Add(3*time.Second)))
				end(w, h)
				<-h.Done()
				require.ErrorIs(w, h.Err(), lock.ErrLost)
				assert.Equal(w, h.Err(), hooks.KeeperOfHeld(h).Promise(begin.Add(time.Hour)))
				time.Sleep(3*time.Second - 1 - clock.Now().Sub(begin))
				synctest.Wait()
				assert.NotNil(w, w.f.Get(h.Key()))
				time.Sleep(time.Second)
				synctest.Wait()
				assert.Nil(w, w.f.Get(h.Key()), "another's promise does not hold it back")
				require.NoError(w, s.Err())
				w.release(other)
			})
		})
	}
}

func (w *fixture) acquireNamed(s *pawl.Session, name string) *lock.Held {
	w.Helper()
	h, err := lock.New(s, name, lock.Options{}).Acquire(w.Context())
	require.NoError(w, err)
	return h
}

// A release is the holder's decision, so it ends what was promised.
func TestAReleaseDoesNotWaitForWhatWasPromised(t *testing.T) {
	inBubble(t, func(w *fixture) {
		h := w.acquire(w.session())
		require.NoError(w, hooks.KeeperOfHeld(h).Promise(clock.Now().Add(time.Hour)))
		w.release(h)
		assert.Nil(w, w.f.Get(h.Key()))
	})
}

// V8: a forfeited key is not a released one. Nothing is handed off, the lock stays taken for the
// lock-delay, and a later Release changes nothing.
// rule: V8
func TestAForfeitIsNoRelease(t *testing.T) {
	inBubble(t, func(w *fixture) {
		_, s := w.delayed(lease.Options{})
		h := w.acquire(s)
		next := w.waiting(w.session())
		time.Sleep(time.Second)
		begin := time.Now()
		hooks.KeeperOfHeld(h).Forfeit(errForfeit)
		hooks.KeeperOfHeld(h).Forfeit(errors.New("again"))
		require.ErrorIs(w, h.Err(), errForfeit)
		assert.ErrorIs(w, h.Release(w.Context()), lock.ErrLost)
		w.release(next.won())
		assert.GreaterOrEqual(w, time.Since(begin), lockDelay)
		assert.Less(w, time.Since(begin), lockDelay+time.Second)
		assert.Equal(w, clock.Instant{}, hooks.KeeperOfHeld(h).Until())
		require.NoError(w, s.Err())
	})
}

// The Owner of a lock is in the key in place of the session's.
func TestALockCanHaveAnOwnerOfItsOwn(t *testing.T) {
	inBubble(t, func(w *fixture) {
		s, err := w.client(pawl.Config{Session: lease.Options{Owner: "daemon"}}).Session(w.Context())
		require.NoError(w, err)
		for _, o := range []lock.Options{{Owner: "uid:7 \"x\""}, {Owner: "uid:7 \"x\"", EtcdLayout: true}, {}} {
			h := w.acquireWith(s, o)
			value := w.f.Get(h.Key()).Value
			assert.Equal(w, o.Owner, keys.ParseIdentity(value).Owner, "of its own; otherwise the session's key says it")
			assert.True(w, keys.OfLock(value))
			require.NoError(w, h.Release(w.Context()))
		}
		_, err = lock.New(s, "name", lock.Options{Owner: string(make([]byte, 1025))}).Acquire(w.Context())
		assert.ErrorContains(w, err, "Options.Owner has 1025 bytes")
	})
}
