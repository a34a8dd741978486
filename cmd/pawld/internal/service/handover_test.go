package service

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/cmd/pawld/internal/registry"
	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
	"github.com/pawl-locks/pawl/lock"
)

// V4: a lock is lost after pawld began to stop, so that no client learns of it. What its client may
// still believe in is left to the successor, which keeps it for that long and no longer.
func TestWhatIsLostWhilePawldHandsOverStaysForAsLongAsItsClientBelieves(t *testing.T) {
	overwrite := func(w *fixture, keys []string) { w.f.Put(keys[0], "x", w.f.Get(keys[0]).Lease) }
	for name, c := range map[string]struct {
		want Want
		why  Why
		lose func(w *fixture, keys []string)
	}{
		"a lock's key is overwritten":    {exclusive("late"), "KEY_OVERWRITTEN", overwrite},
		"one of a set's":                 {setOf(nil, "late", "more"), "KEY_OVERWRITTEN", overwrite},
		"one of a set's keys is deleted": {setOf(nil, "late", "more"), "KEY_DELETED", func(w *fixture, keys []string) { w.f.Delete(keys[0]) }},
		"a permit's key is overwritten":  {Want{Names: []string{"late"}, Modes: []Mode{Semaphore}, Limit: 1}, "KEY_OVERWRITTEN", overwrite},
		"a term's key is overwritten":    {Want{Names: []string{"late"}, Modes: []Mode{Election}}, "KEY_OVERWRITTEN", overwrite},
	} {
		for when, wait := range map[string]bool{"while it waits": true, "while it writes": false} {
			t.Run(name+" "+when, func(t *testing.T) {
				inBubble(t, func(w *fixture) {
					d := w.daemon()
					got, err := d.Acquire(w.Context(), d.request("a", time.Second), "1", 15*time.Second, c.want, 10)
					require.NoError(w, err)
					require.Equal(w, registry.Held, got.State)
					earlier, err := d.Acquire(w.Context(), d.request("b", time.Second), "1", 5*time.Second, setOf(nil, "c", "d"), 10)
					require.NoError(w, err)
					time.Sleep(time.Second) // the watches are armed
					if wait {
						w.f.Delete(earlier.Keys[0]) // so that it waits
						synctest.Wait()
					}
					begin := time.Now()
					validity := d.one("a").Valid
					if wait {
						time.AfterFunc(3*time.Second, func() { c.lose(w, got.Keys) })
					}
					var saved Saved
					require.NoError(w, d.Detach(func(s Saved) error {
						if saved.Sessions == nil && !wait {
							c.lose(w, got.Keys)
							synctest.Wait()
						}
						saved = s
						return nil
					}))
					_ = d.client.Close() // what the successor removes may be pending
					if wait {
						require.GreaterOrEqual(w, time.Since(begin), 5*time.Second)
					}
					next := w.daemon()
					_, err = next.Resume(w.Context(), saved)
					require.NoError(w, err)
					lost := next.one("a")
					assert.Equal(w, registry.Lost, lost.State)
					assert.Equal(w, c.why, WhyOf(lost.Why))
					require.Less(w, time.Since(begin), validity-time.Second)
					time.Sleep(validity - 1 - time.Since(begin))
					synctest.Wait()
					assert.NotNil(w, w.f.Get(got.Keys[len(got.Keys)-1]), "its client believes until now")
					next.keep("c")
					for next.acquire("c", "1", 4*time.Second, c.want).State != registry.Held {
						require.Less(w, time.Since(begin), 45*time.Second)
					}
				})
			})
		}
	}
}

// An answer has found a loss before pawld began to stop, and what pawld does about a loss comes
// later.
func TestALossThatAnAnswerFindsFirstIsLeftToTheSuccessor(t *testing.T) {
	inBubble(t, func(w *fixture) {
		d := w.daemon()
		l := d.hold("a", "1", "name")
		d.Drain()
		d.mu.Lock()
		d.registry.Lose(l.Ref, lock.ErrKeyOverwritten, clock.Now())
		d.mu.Unlock()
		w.f.Put(l.Keys[0], "x", w.f.Get(l.Keys[0]).Lease)
		synctest.Wait()
		var saved Saved
		require.NoError(w, d.Detach(func(s Saved) error { saved = s; return nil }))
		begin := time.Now()
		next := w.daemon()
		_, err := next.Resume(w.Context(), saved)
		require.NoError(w, err)
		assert.Equal(w, Why("KEY_OVERWRITTEN"), WhyOf(next.one("a").Why))
		time.Sleep(h*5/6 - 1 - time.Since(begin))
		synctest.Wait()
		assert.NotNil(w, w.f.Get(l.Keys[0]))
	})
}

// A Confirm finds the loss, and is answered after pawld began to stop: its client does not learn of it.
func TestALossThatAConfirmFindsWhilePawldStopsIsLeftToTheSuccessor(t *testing.T) {
	inBubble(t, func(w *fixture) {
		d := w.daemon()
		l := d.hold("a", "1", "name")
		_, err := d.withHeld(d.request("a", 0), "1", func(*part) error { return nil }, func(*held) error {
			d.Drain()
			return fmt.Errorf("%w: %w", lock.ErrLost, lock.ErrKeyOverwritten)
		})
		require.ErrorIs(w, err, ErrStopping)
		var saved Saved
		require.NoError(w, d.Detach(func(s Saved) error { saved = s; return nil }))
		row := saved.Sessions[0].Rows[0]
		assert.Equal(w, registry.Held, row.State)
		assert.Equal(w, l.Keys, row.Keys)
	})
}

// V4: the TTL of a session that was taken over is longer than --max-ttl. A loss in another session
// shortens nothing.
func TestALongerTTLThanTheLongestIsWaitedForBeforeARestart(t *testing.T) {
	for name, other := range map[string]bool{"alone": false, "with a shorter one": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *fixture) {
				first := w.daemon()
				a, err := first.Acquire(w.Context(), first.request("a", time.Second), "1", 15*time.Second, exclusive("name"), 10)
				require.NoError(w, err)
				b, err := first.Acquire(w.Context(), first.request("b", time.Second), "1", 3*time.Second, exclusive("other"), 10)
				require.NoError(w, err)
				saved := first.left()
				d := w.daemon()
				d.cfg.Registry.MaxTTL = 3 * time.Second
				taken, err := d.Resume(w.Context(), saved)
				require.NoError(w, err)
				require.Equal(w, 2, taken)
				d.keep("b")
				time.Sleep(time.Second) // the watches are armed
				begin := time.Now()
				validity := d.one("a").Valid
				w.f.Put(a.Keys[0], "x", w.f.Get(a.Keys[0]).Lease)
				synctest.Wait()
				if other {
					time.Sleep(time.Second)
					w.f.Put(b.Keys[0], "x", w.f.Get(b.Keys[0]).Lease)
					synctest.Wait()
				}
				d.AwaitValidity(w.Context())
				assert.GreaterOrEqual(w, time.Since(begin), validity, "its clients are served meanwhile")
				require.NoError(w, d.Detach(func(s Saved) error { saved = s; return nil }))
				_, err = w.daemon().Resume(w.Context(), saved)
				require.NoError(w, err)
				assert.GreaterOrEqual(w, time.Since(begin), validity)
				synctest.Wait()
				assert.Nil(w, w.f.Get(a.Keys[0]))
			})
		})
	}
}

// A believer is a client with one lock, which believes what rule V3 lets it.
type believer struct {
	session, id string
	ttl         time.Duration
	want        Want

	mu       sync.Mutex
	keys     []string // those that pawld must not remove: without what the test has deleted
	validity time.Time
}

// heard is what it makes of an answer to what it sent.
func (b *believer) heard(sent time.Time, l Lock) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case l.State != registry.Held:
		b.validity = time.Time{}
	case b.validity.Before(sent.Add(l.Valid)):
		b.validity = sent.Add(l.Valid)
	}
}

// lives renews now and then until ctx ends, or the daemon stops.
func (b *believer) lives(ctx context.Context, d *daemon, pauses *rand.Rand) {
	for ctx.Err() == nil {
		sent := time.Now()
		all, err := d.Renew(ctx, d.request(b.session, time.Duration(pauses.IntN(3))*time.Second), nil)
		if err != nil {
			return
		}
		for _, l := range all {
			if l.Ref.Request == b.id {
				b.heard(sent, l)
			}
		}
		time.Sleep(time.Duration(pauses.Int64N(int64(b.ttl / 2))))
	}
}

// hit deletes one of its keys, or writes to it.
func (b *believer) hit(w *fixture, r *rand.Rand) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.keys) == 0 {
		return
	}
	i := r.IntN(len(b.keys))
	kv := w.f.Get(b.keys[i])
	if kv == nil {
		return
	}
	switch r.IntN(3) {
	case 0:
		w.f.Delete(b.keys[i])
		b.keys = slices.Delete(slices.Clone(b.keys), i, i+1)
	case 1:
		w.f.Put(b.keys[i], "x", kv.Lease)
	default:
		w.f.Put(b.keys[i], "x", 0)
	}
}

// V4, at random: clients of every kind of lock, whose keys are deleted and overwritten at any moment,
// and whose pawld loses its session now and then, while it is replaced several times. No key goes while
// its client believes, unless the test deleted it, and none stays for good.
func TestNoKeyGoesWhileItsClientBelievesAtRandom(t *testing.T) {
	seed := testscale.Seed(t)
	for round := range testscale.Of[uint64](10, 60) {
		inBubble(t, func(w *fixture) {
			r := rand.New(rand.NewPCG(seed, round))
			d := w.daemon()
			var all []*believer
			for i := range 8 {
				name := fmt.Sprint("name", i)
				b := &believer{session: fmt.Sprint("s", i), id: "1", ttl: time.Duration(3+r.IntN(13)) * time.Second, want: []Want{
					exclusive(name),
					{Names: []string{name}, Modes: []Mode{Shared}},
					{Names: []string{name}, Modes: []Mode{Semaphore}, Limit: 2},
					{Names: []string{name}, Modes: []Mode{Election}},
					setOf([]string{name + "shared"}, name),
					setOf(nil, name, name+"more", name+"most"),
				}[r.IntN(6)]}
				sent := time.Now()
				a, err := d.Acquire(w.Context(), d.request(b.session, time.Second), b.id, b.ttl, b.want, 100)
				require.NoError(w, err)
				require.Equal(w, registry.Held, a.State)
				b.keys = a.Keys
				b.heard(sent, a.Lock)
				all = append(all, b)
			}
			defer clock.SetWallJump(0)
			var jumps atomic.Int32
			over := make(chan struct{})
			var watches sync.WaitGroup
			watches.Add(1)
			go func() { // until over is closed
				defer watches.Done()
				for !closed(over) {
					for _, b := range all {
						b.mu.Lock()
						for _, key := range b.keys {
							if time.Now().Before(b.validity) && w.f.Get(key) == nil {
								w.Errorf("key %s is gone, and its client believes for another %v", key, time.Until(b.validity))
								b.keys = nil
							}
						}
						b.mu.Unlock()
					}
					time.Sleep(50 * time.Millisecond)
				}
			}()
			for range 4 {
				var living sync.WaitGroup
				ctx, cancel := context.WithCancel(w.Context())
				for _, b := range all {
					own, pauses := d, rand.New(rand.NewPCG(r.Uint64(), 0))
					living.Add(1)
					go func() { defer living.Done(); b.lives(ctx, own, pauses) }()
				}
				hits := func(most int, within time.Duration) {
					for range r.IntN(most + 1) {
						b, how := all[r.IntN(len(all))], rand.New(rand.NewPCG(r.Uint64(), 0))
						watches.Add(1)
						time.AfterFunc(time.Duration(r.Int64N(int64(within))), func() { defer watches.Done(); b.hit(w, how) })
					}
				}
				hits(1, 20*time.Second)
				if r.IntN(6) == 0 { // pawld's session ends
					watches.Add(1)
					time.AfterFunc(time.Duration(r.Int64N(int64(20*time.Second))), func() { defer watches.Done(); clock.SetWallJump(time.Duration(jumps.Add(1)) * time.Hour) })
				}
				time.Sleep(time.Duration(r.Int64N(int64(10 * time.Second))))
				if r.IntN(2) == 0 {
					d.AwaitValidity(w.Context())
				}
				hits(1, time.Second) // before it begins to wait
				time.Sleep(time.Duration(r.Int64N(int64(time.Second))))
				hits(1, 10*time.Second) // while it waits
				var saved Saved
				require.NoError(w, d.Detach(func(s Saved) error {
					hits(1, 2*time.Second)
					time.Sleep(time.Duration(r.Int64N(int64(2 * time.Second))))
					saved = s
					return nil
				}))
				go func(d *daemon) { _ = d.client.Close() }(d)
				next := w.daemon()
				if _, err := next.Resume(w.Context(), saved); jumps.Load() == 0 {
					require.NoError(w, err, "seed %d", seed)
				}
				cancel()
				living.Wait()
				d = next
			}
			time.Sleep(time.Minute)
			close(over)
			watches.Wait()
			for _, key := range w.f.Keys("name") { // with the session, pawld forgets what the test took off its lease
				assert.True(w, jumps.Load() > 0 && w.f.Get(key).Lease == 0, "seed %d: key %s stays", seed, key)
			}
		})
		if t.Failed() {
			return
		}
	}
}

func closed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
