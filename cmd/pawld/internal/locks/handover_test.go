package locks

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/cmd/pawld/internal/table"
	"github.com/pawl-locks/pawl/internal/clock"
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
					require.Equal(w, table.Held, got.State)
					earlier, err := d.Acquire(w.Context(), d.request("b", time.Second), "1", 5*time.Second, setOf(nil, "c", "d"), 10)
					require.NoError(w, err)
					time.Sleep(time.Second) // the watches are armed
					if wait {
						w.f.Delete(earlier.Keys[0]) // so that it waits
						synctest.Wait()
					}
					begin := time.Now()
					belief := d.one("a").Valid
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
					assert.Equal(w, table.Lost, lost.State)
					assert.Equal(w, c.why, WhyOf(lost.Why))
					require.Less(w, time.Since(begin), belief-time.Second)
					time.Sleep(belief - 1 - time.Since(begin))
					synctest.Wait()
					assert.NotNil(w, w.f.Get(got.Keys[len(got.Keys)-1]), "its client believes until now")
					next.keep("c")
					for next.acquire("c", "1", 4*time.Second, c.want).State != table.Held {
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
		d.table.Lose(l.Ref, lock.ErrKeyOverwritten, clock.Now())
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
		_, err := d.withHeld(d.request("a", 0), "1", func(*held) error {
			d.Drain()
			return fmt.Errorf("%w: %w", lock.ErrLost, lock.ErrKeyOverwritten)
		})
		require.ErrorIs(w, err, ErrStopping)
		var saved Saved
		require.NoError(w, d.Detach(func(s Saved) error { saved = s; return nil }))
		row := saved.Sessions[0].Rows[0]
		assert.Equal(w, table.Held, row.State)
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
				d.cfg.Table.MaxTTL = 3 * time.Second
				taken, err := d.Resume(w.Context(), saved)
				require.NoError(w, err)
				require.Equal(w, 2, taken)
				d.keep("b")
				time.Sleep(time.Second) // the watches are armed
				begin := time.Now()
				belief := d.one("a").Valid
				w.f.Put(a.Keys[0], "x", w.f.Get(a.Keys[0]).Lease)
				synctest.Wait()
				if other {
					time.Sleep(time.Second)
					w.f.Put(b.Keys[0], "x", w.f.Get(b.Keys[0]).Lease)
					synctest.Wait()
				}
				d.AwaitBeliefs(w.Context())
				assert.GreaterOrEqual(w, time.Since(begin), belief, "its clients are served meanwhile")
				require.NoError(w, d.Detach(func(s Saved) error { saved = s; return nil }))
				_, err = w.daemon().Resume(w.Context(), saved)
				require.NoError(w, err)
				assert.GreaterOrEqual(w, time.Since(begin), belief)
				synctest.Wait()
				assert.Nil(w, w.f.Get(a.Keys[0]))
			})
		})
	}
}
