package lock_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/internal/hooks"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
)

// The lock-delay of these tests, and the TTL.
const (
	lockDelay = 20 * time.Second
	delayTTL  = 6 * time.Second
)

// delayed returns a new client, and a session with a lock-delay on it.
func (w *fixture) delayed(o lease.Options) (*pawl.Client, *pawl.Session) {
	w.Helper()
	c := w.client(pawl.Config{})
	if o.LockDelay = lockDelay; o.Resume == (lease.Handle{}) {
		o.TTL = delayTTL
	}
	s, err := c.NewSession(w.Context(), o)
	require.NoError(w, err)
	return c, s
}

// shut closes s and waits for at most a second.
func (w *fixture) shut(s *pawl.Session) error {
	ctx, cancel := context.WithTimeout(w.Context(), time.Second)
	defer cancel()
	return s.Close(ctx)
}

// delayModes are a holder and an acquisition that has to wait for it, in each mode.
var delayModes = map[string]struct {
	holds, waits func(s pawl.Sessions, o lock.Options) acquirer
}{
	"exclusive": {exclusively, exclusively},
	"shared":    {sharedly, exclusively},
	"semaphore": {slot, slot},
	"set":       {setOf("other", "name"), exclusively},
	"etcd": {func(s pawl.Sessions, o lock.Options) acquirer {
		o.EtcdLayout = true
		return lock.New(s, "name", o).Acquire
	}, func(s pawl.Sessions, o lock.Options) acquirer {
		o.EtcdLayout = true
		return lock.New(s, "name", o).Acquire
	}},
}

type acquirer func(ctx context.Context) (*lock.Held, error)

func exclusively(s pawl.Sessions, o lock.Options) acquirer { return lock.New(s, "name", o).Acquire }
func sharedly(s pawl.Sessions, o lock.Options) acquirer    { return lock.New(s, "name", o).AcquireShared }
func slot(s pawl.Sessions, o lock.Options) acquirer {
	return lock.NewSemaphore(s, "name", 1, o).Acquire
}

func setOf(names ...string) func(s pawl.Sessions, o lock.Options) acquirer {
	return func(s pawl.Sessions, o lock.Options) acquirer {
		var all []lock.Want
		for _, n := range names {
			all = append(all, lock.Exclusive(n))
		}
		return lock.NewMulti(s, o, all...).Acquire
	}
}

// LD1, LD2, LD3: however a hold ends without Release, nobody who waits or comes later acquires the
// lock before the delay has passed, in any mode. Somebody acquires it soon after the latest
// possible end of the lease.
// rule: LD2
func TestALockStaysTakenForItsDelayAfterAHoldThatWasNotReleased(t *testing.T) {
	for name, end := range map[string]func(w *fixture, c *pawl.Client, s *pawl.Session, h *lock.Held){
		"renewals fail": func(w *fixture, _ *pawl.Client, s *pawl.Session, h *lock.Held) {
			w.f.Inject(etcdfake.Rule{Method: "LeaseKeepAlive", Lose: true, Match: func(q etcdfake.Request) bool {
				m, ok := q.Message.(*pb.LeaseKeepAliveRequest)
				return ok && m.ID == s.ID()
			}})
		},
		"closed":        func(w *fixture, _ *pawl.Client, s *pawl.Session, _ *lock.Held) { assert.Error(w, w.shut(s)) },
		"client closed": func(w *fixture, c *pawl.Client, _ *pawl.Session, _ *lock.Held) { assert.Error(w, c.Close()) },
		"wall clock ran ahead": func(_ *fixture, _ *pawl.Client, s *pawl.Session, _ *lock.Held) {
			clock.SetWallJump(delayTTL/6 + 1)
			_ = s.Err()
			clock.SetWallJump(0)
		},
		"forfeited": func(_ *fixture, _ *pawl.Client, _ *pawl.Session, h *lock.Held) {
			hooks.KeeperOfHeld(h).Forfeit(errForfeit)
		},
		"forfeited, and released later": func(w *fixture, _ *pawl.Client, _ *pawl.Session, h *lock.Held) {
			hooks.KeeperOfHeld(h).Forfeit(errForfeit)
			assert.ErrorIs(w, h.Release(w.Context()), lock.ErrLost)
		},
		"forfeited, and closed": func(w *fixture, _ *pawl.Client, s *pawl.Session, h *lock.Held) {
			hooks.KeeperOfHeld(h).Forfeit(errForfeit)
			time.Sleep(time.Second)
			assert.Error(w, w.shut(s))
		},
		"forfeited, and taken over": func(w *fixture, _ *pawl.Client, s *pawl.Session, h *lock.Held) {
			hooks.KeeperOfHeld(h).Forfeit(errForfeit)
			_, _ = w.delayed(lease.Options{Resume: s.Detach()})
		},
		"forfeited, taken over, and closed": func(w *fixture, _ *pawl.Client, s *pawl.Session, h *lock.Held) {
			hooks.KeeperOfHeld(h).Forfeit(errForfeit)
			_, next := w.delayed(lease.Options{Resume: s.Detach()})
			assert.Error(w, w.shut(next))
		},
		"detached": func(w *fixture, _ *pawl.Client, s *pawl.Session, _ *lock.Held) { s.Detach() },
		"taken over, and closed unresumed": func(w *fixture, _ *pawl.Client, s *pawl.Session, _ *lock.Held) {
			_, next := w.delayed(lease.Options{Resume: s.Detach()})
			assert.Error(w, w.shut(next))
		},
		"overwritten": func(w *fixture, _ *pawl.Client, s *pawl.Session, h *lock.Held) {
			key := h.Keys()[len(h.Keys())-1]
			w.f.Put(key, "x", s.ID())
		},
		"overwritten without a lease": func(w *fixture, _ *pawl.Client, s *pawl.Session, h *lock.Held) {
			w.f.Put(h.Keys()[len(h.Keys())-1], "x", 0)
		},
		"session key deleted": func(w *fixture, _ *pawl.Client, s *pawl.Session, _ *lock.Held) {
			w.f.Delete(fmt.Sprintf("//pawl/%x", s.ID()))
		},
		"promised": func(w *fixture, _ *pawl.Client, _ *pawl.Session, h *lock.Held) {
			require.NoError(w, hooks.KeeperOfHeld(h).Promise(clock.Now().Add(3*time.Second)))
			hooks.KeeperOfHeld(h).Forfeit(errForfeit)
		},
	} {
		for mode, of := range delayModes {
			t.Run(name+"/"+mode, func(t *testing.T) {
				inBubble(t, func(w *fixture) {
					c, s := w.delayed(lease.Options{})
					h, err := of.holds(s, lock.Options{})(w.Context())
					require.NoError(w, err)
					won := make(chan time.Time, 2)
					next := func() {
						other, err := of.waits(w.session(), lock.Options{})(w.Context())
						if assert.NoError(w, err) {
							at := time.Now()
							assert.NoError(w, other.Release(w.Context()))
							won <- at
						}
					}
					go next() // it waits already
					time.Sleep(time.Second)
					ended := make(chan time.Time, 1)
					go func() {
						<-h.Done()
						ended <- time.Now()
					}()
					end(w, c, s, h)
					at := <-ended
					if name == "promised" {
						at = at.Add(3 * time.Second)
					}
					go next() // it comes later
					took := (<-won).Sub(at)
					<-won
					assert.GreaterOrEqual(w, took, lockDelay)
					assert.Less(w, took, lockDelay*6/5+delayTTL+4*time.Second)
				})
			})
		}
	}
}

// A Release has no delay, whatever ends the session afterwards.
// rule: LD2
func TestThereIsNoLockDelayAfterARelease(t *testing.T) {
	for mode, of := range delayModes {
		t.Run(mode, func(t *testing.T) {
			inBubble(t, func(w *fixture) {
				_, s := w.delayed(lease.Options{})
				for _, o := range []lock.Options{{}, {MaxHold: time.Hour}} {
					h, err := of.holds(s, o)(w.Context())
					require.NoError(w, err)
					time.Sleep(time.Second)
					require.NoError(w, h.Release(w.Context()))
				}
				began := time.Now()
				next, err := of.waits(w.session(), lock.Options{})(w.Context())
				require.NoError(w, err)
				assert.Less(w, time.Since(began), time.Second)
				require.NoError(w, next.Release(w.Context()))
				require.NoError(w, w.shut(s), "nothing is kept")
				synctest.Wait()
				_, there := w.f.Lease(s.ID())
				assert.False(w, there)
			})
		})
	}
}

// Deletions by an operator have no delay, as the docs say.
func TestThereIsNoLockDelayAfterAnOperator(t *testing.T) {
	for name, end := range map[string]func(w *fixture, s *pawl.Session, h *lock.Held){
		"key deleted":   func(w *fixture, _ *pawl.Session, h *lock.Held) { w.f.Delete(h.Key()) },
		"lease revoked": func(w *fixture, s *pawl.Session, _ *lock.Held) { w.f.Revoke(s.ID()) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *fixture) {
				_, s := w.delayed(lease.Options{})
				h := w.acquire(s)
				next := w.waiting(w.session())
				end(w, s, h)
				began := time.Now()
				w.release(next.won())
				assert.Less(w, time.Since(began), time.Second)
			})
		})
	}
}

// ML6, LD3: what is left of a set that lost a name stays until the delay after the loss has passed,
// even if the set is released at once.
// rule: LD3
func TestALateReleaseOfASetDoesNotShortenItsLockDelay(t *testing.T) {
	for name, o := range map[string]lock.Options{"pawl": {}, "etcd": {EtcdLayout: true}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *fixture) {
				_, s := w.delayed(lease.Options{})
				h, err := setOf("a", "b")(s, o)(w.Context())
				require.NoError(w, err)
				time.Sleep(time.Second)
				w.f.Delete(h.Keys()[0])
				<-h.Done()
				lost := time.Now()
				assert.ErrorIs(w, h.Release(w.Context()), lock.ErrKeyDeleted)
				next, err := lock.New(w.session(), "b", o).Acquire(w.Context())
				require.NoError(w, err)
				assert.GreaterOrEqual(w, time.Since(lost), lockDelay)
				assert.Less(w, time.Since(lost), lockDelay+time.Second)
				require.NoError(w, next.Release(w.Context()))
				require.NoError(w, s.Err())
			})
		})
	}
}

// AtLeast keeps a key that was released. That is no lock-delay, and a Close ends it.
func TestALockDelayIsNotForWhatAtLeastKeeps(t *testing.T) {
	inBubble(t, func(w *fixture) {
		_, s := w.delayed(lease.Options{})
		h := w.acquireWith(s, lock.Options{AtLeast: time.Hour})
		require.NoError(w, h.Release(w.Context()))
		assert.NotEmpty(w, w.keys())
		require.NoError(w, w.shut(s))
		w.clear()
	})
}

// A session that is taken over keeps its lock-delay. A hold that is resumed and released has none.
// rule: LD3
func TestAResumedHoldIsReleasedWithoutADelayAndLostWithOne(t *testing.T) {
	inBubble(t, func(w *fixture) {
		_, s := w.delayed(lease.Options{})
		h := w.acquire(s)
		c := w.client(pawl.Config{})
		next, err := c.NewSession(w.Context(), lease.Options{Resume: s.Detach()}) // without a LockDelay
		require.NoError(w, err)
		assert.Equal(w, delayTTL, next.TTL())
		r, err := mutex(next).Resume(w.Context(), h.Key(), h.Token())
		require.NoError(w, err)
		w.release(r)
		w.clear()
		time.Sleep(time.Minute)
		r = w.acquire(next)
		began := time.Now()
		require.Error(w, w.shut(next))
		w.release(w.acquire(w.session()))
		assert.GreaterOrEqual(w, time.Since(began), lockDelay)
		assert.Less(w, time.Since(began), lockDelay+time.Second)
		w.lostBy(lease.ErrClosed, r)
	})
}
