package lock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
)

// resumers resume what delayModes acquire.
var resumers = map[string]func(ctx context.Context, s *pawl.Session, h *lock.Held, o lock.Options) (*lock.Held, error){
	"exclusive": resumesLock,
	"shared":    resumesLock,
	"semaphore": func(ctx context.Context, s *pawl.Session, h *lock.Held, o lock.Options) (*lock.Held, error) {
		return lock.NewSemaphore(s, "name", 1, o).Resume(ctx, h.Key(), h.Token())
	},
	"set": func(ctx context.Context, s *pawl.Session, h *lock.Held, o lock.Options) (*lock.Held, error) {
		return lock.NewMulti(s, o, lock.Exclusive("other"), lock.Exclusive("name")).Resume(ctx, h.Keys(), h.Token())
	},
	"etcd": func(ctx context.Context, s *pawl.Session, h *lock.Held, o lock.Options) (*lock.Held, error) {
		o.EtcdLayout = true
		return resumesLock(ctx, s, h, o)
	},
}

func resumesLock(ctx context.Context, s *pawl.Session, h *lock.Held, o lock.Options) (*lock.Held, error) {
	return lock.New(s, "name", o).Resume(ctx, h.Key(), h.Token())
}

// ofEachKind runs f in a bubble for what is acquired in each mode, as it was acquired, and after its session
// was taken over. hold acquires with these options, or resumes with them.
func ofEachKind(t *testing.T, f func(w *fixture, kind string, hold func(lock.Options) *lock.Held)) {
	for kind, mode := range delayModes {
		for _, taken := range []bool{false, true} {
			name := kind
			if taken {
				name += " taken over"
			}
			t.Run(name, func(t *testing.T) {
				inBubble(t, func(w *fixture) {
					s := w.session()
					f(w, kind, func(o lock.Options) *lock.Held {
						first := o
						if taken {
							first = lock.Options{}
						}
						h, err := mode.holds(s, first)(w.Context())
						require.NoError(w, err)
						if !taken {
							return h
						}
						next, err := w.client(pawl.Config{}).NewSession(w.Context(), lease.Options{Resume: s.Detach()})
						require.NoError(w, err)
						h, err = resumers[kind](w.Context(), next, h, o)
						require.NoError(w, err)
						return h
					})
				})
			})
		}
	}
}

// AtLeast keeps what was released, whatever it is, for its time, and no longer.
func TestWhateverIsAcquiredStaysTakenForLongEnough(t *testing.T) {
	ofEachKind(t, func(w *fixture, kind string, hold func(lock.Options) *lock.Held) {
		began := time.Now()
		h := hold(lock.Options{AtLeast: 30 * time.Second})
		time.Sleep(time.Second)
		require.NoError(w, h.Release(w.Context()))
		_, err := delayModes[kind].waits(w.session(), lock.Options{})(w.Context())
		require.NoError(w, err)
		assert.GreaterOrEqual(w, time.Since(began), 30*time.Second)
		assert.Less(w, time.Since(began), 30*time.Second+100*time.Millisecond)
	})
}

// MaxHold ends what is held, whatever it is, at its time, and its Deadline says so before.
func TestWhateverIsAcquiredIsLostWhenItIsHeldForTooLong(t *testing.T) {
	ofEachKind(t, func(w *fixture, kind string, hold func(lock.Options) *lock.Held) {
		h := hold(lock.Options{MaxHold: time.Second})
		began := time.Now()
		assert.Equal(w, began.Add(time.Second).UnixMilli(), h.Deadline().UnixMilli())
		time.Sleep(time.Second - 1)
		require.NoError(w, h.Err())
		select {
		case <-h.Done():
		case <-time.After(time.Minute):
		}
		require.Equal(w, time.Second, time.Since(began))
		require.ErrorIs(w, h.Err(), lock.ErrMaxHold)
		_, err := delayModes[kind].waits(w.session(), lock.Options{MaxHold: time.Second})(w.Context())
		require.NoError(w, err)
		assert.Less(w, time.Since(began), 1100*time.Millisecond)
	})
}

// A holder learns that somebody waits behind it, whatever it holds, but for a slot, of which nobody knows who
// waits for it; and not before somebody does.
func TestWhateverIsAcquiredIsWantedOnceSomebodyWaits(t *testing.T) {
	ofEachKind(t, func(w *fixture, kind string, hold func(lock.Options) *lock.Held) {
		wanted := hold(lock.Options{}).Wanted()
		if kind == "semaphore" {
			assert.Nil(w, wanted)
			return
		}
		time.Sleep(time.Minute)
		select {
		case <-wanted:
			assert.Fail(w, "nobody waits")
		default:
		}
		ctx, cancel := context.WithCancel(w.Context())
		done, other := make(chan struct{}), w.session()
		go func() { // ends with ctx
			defer close(done)
			_, _ = delayModes[kind].waits(other, lock.Options{})(ctx)
		}()
		synctest.Wait()
		select {
		case <-wanted:
		default:
			assert.Fail(w, "it is not wanted, and somebody waits")
		}
		cancel()
		<-done
	})
}

// In etcd's layout a release hands nothing on, not even to a key of pawl's layout, in whose queue it is if the
// name has no slash. In pawl's layout it does.
func TestInEtcdsLayoutALockIsNotHandedOn(t *testing.T) {
	for name, c := range map[string]struct {
		layout bool
		writes int64 // of the successor's key
	}{"etcd's": {true, 1}, "pawl's": {false, 2}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *fixture) {
				of := func(layout bool) *lock.Mutex {
					return lock.New(w.session(), "name", lock.Options{EtcdLayout: layout})
				}
				first := w.acquire(w.session())
				second := w.acquiring(w.Context(), of(c.layout))
				third := w.acquiring(w.Context(), of(false))
				require.True(w, second.waits() && third.waits())
				w.release(first)
				require.True(w, third.waits())
				w.release(second.won())
				assert.Equal(w, c.writes, w.f.Get(third.won().Key()).Version)
			})
		})
	}
}

// A key in etcd's layout that names its owner is the key of a lock, and of none that a release may hand
// anything on to.
func TestAnOwnersKeyInEtcdsLayoutReceivesNoHandoff(t *testing.T) {
	inBubble(t, func(w *fixture) {
		h := w.acquireWith(w.session(), lock.Options{EtcdLayout: true, Owner: "somebody"})
		value := w.f.Get(h.Key()).Value
		assert.True(w, keys.OfLock(value))
		assert.NotEqual(w, keys.LockMark, keys.MarkOf(value))
	})
}
