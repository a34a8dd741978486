package service

import (
	"bytes"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawl-locks/pawl/cmd/pawld/internal/registry"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
)

// setOf wants the names alone, and shared ones shared.
func setOf(shared []string, names ...string) Want {
	w := Want{Names: append(names, shared...), Owner: "uid:1"}
	for range names {
		w.Modes = append(w.Modes, Exclusive)
	}
	for range shared {
		w.Modes = append(w.Modes, Shared)
	}
	return w
}

func TestASetIsHeldAllOrNone(t *testing.T) {
	inBubble(t, func(w *fixture) {
		d := w.daemon()
		d.keep("a")
		a := d.acquire("a", "1", time.Second, setOf([]string{"c"}, "a", "b"))
		require.Equal(w, registry.Held, a.State)
		assert.Equal(w, []string{"a", "b", "c"}, a.Names)
		require.Len(w, a.Keys, 3)
		for _, key := range a.Keys {
			require.NotNil(w, w.f.Get(key))
			assert.Equal(w, a.Token, w.f.Get(key).CreateRevision)
			assert.Equal(w, []string{"a", "b", "c"}, keys.ParseNames(w.f.Get(key).Value))
		}
		try := setOf(nil, "x", "b")
		try.Try = true
		assert.True(w, d.acquire("b", "try", time.Second, try).Busy)
		assert.Empty(w, w.f.Keys("x/"), "a try that finds one name taken takes none")
		assert.Equal(w, registry.Held, d.acquire("b", "2", time.Second, setOf([]string{"c"}, "x")).State, "both read c")
		d.keep("b")
		assert.Equal(w, registry.Waiting, d.acquire("b", "1", time.Second, setOf(nil, "b", "y")).State)
		assert.Len(w, w.f.Keys("y/"), 1, "it stands in both queues")
		assert.True(w, d.release("a", "1").Released)
		next := d.acquire("b", "1", time.Second, setOf(nil, "b", "y"))
		assert.Equal(w, registry.Held, next.State)
		assert.Greater(w, next.Token, a.Token)
		synctest.Wait()
		assert.Empty(w, w.f.Keys("a/"))
	})
}

// ML6: where one name is lost, all is. The others stay taken until the client's Release, or
// for its TTL.
// rule: ML6
func TestWhatIsLeftOfALostSetStaysTakenForAWhile(t *testing.T) {
	for name, release := range map[string]bool{"released": true, "not released": false} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *fixture) {
				d := w.daemon()
				d.keep("a")
				a := d.acquire("a", "1", time.Second, setOf(nil, "a", "b"))
				require.Equal(w, registry.Held, a.State)
				time.Sleep(time.Second) // its watches are armed
				w.f.Delete(a.Keys[0])
				synctest.Wait()
				begin := time.Now()
				l := d.one("a")
				assert.Equal(w, registry.Lost, l.State)
				assert.Equal(w, Why("KEY_DELETED"), WhyOf(l.Why))
				_, err := d.Renew(w.Context(), d.request("a", 0), []string{"1"}) // settled
				require.NoError(w, err)
				time.Sleep(h - 1)
				synctest.Wait()
				require.NotNil(w, w.f.Get(a.Keys[1]))
				if release {
					assert.False(w, d.release("a", "1").Released)
					synctest.Wait()
					assert.Nil(w, w.f.Get(a.Keys[1]))
					return
				}
				next := d.acquire("b", "1", time.Second, exclusive("b"))
				assert.Equal(w, registry.Held, next.State)
				assert.Less(w, time.Since(begin), h+100*time.Millisecond)
			})
		})
	}
}

func TestASetOfASilentClientIsForfeitedWhole(t *testing.T) {
	inBubble(t, func(w *fixture) {
		d := w.daemon()
		a := d.acquire("a", "1", time.Second, setOf([]string{"b"}, "a"))
		require.Equal(w, registry.Held, a.State)
		time.Sleep(h - 1)
		synctest.Wait()
		for _, key := range a.Keys {
			assert.NotNil(w, w.f.Get(key))
		}
		time.Sleep(time.Second)
		for _, key := range a.Keys {
			assert.Nil(w, w.f.Get(key))
		}
		assert.Equal(w, Why("EXPIRED"), WhyOf(d.one("a").Why))
	})
}

func TestASetOutlivesARestart(t *testing.T) {
	inBubble(t, func(w *fixture) {
		d := w.daemon()
		a := d.acquire("a", "1", time.Second, setOf([]string{"c"}, "a", "b"))
		lost := d.acquire("a", "2", time.Second, setOf(nil, "d", "e"))
		require.Equal(w, registry.Held, lost.State)
		var saved Saved
		require.NoError(w, d.Detach(func(s Saved) error { saved = s; return nil }))
		require.NoError(w, d.client.Close())
		w.f.Delete(lost.Keys[1])
		next := w.daemon()
		taken, err := next.Resume(w.Context(), saved)
		require.NoError(w, err)
		assert.Equal(w, 1, taken)
		all := next.renew("a", 0)
		require.Len(w, all, 2)
		assert.Equal(w, registry.Held, all[0].State)
		assert.Equal(w, a.Keys, all[0].Keys)
		assert.Equal(w, a.Token, all[0].Token)
		assert.Equal(w, Why("KEY_DELETED"), WhyOf(all[1].Why))
		assert.True(w, next.release("a", "1").Released)
		assert.Empty(w, w.f.Keys("a/"))
		assert.Empty(w, w.f.Keys("c/"))
		require.NotNil(w, w.f.Get(lost.Keys[0]))
		time.Sleep(40 * time.Second) // the engine's TTL, and the removal
		assert.Nil(w, w.f.Get(lost.Keys[0]), "what could not be taken over does not stay")
	})
}

// A successor does not take over what is left of a lost set, which would stay for as long as
// its session.
func TestWhatIsLeftOfALostSetIsGivenBackBeforeARestart(t *testing.T) {
	inBubble(t, func(w *fixture) {
		d := w.daemon()
		a := d.acquire("a", "1", time.Second, setOf(nil, "a", "b"))
		d.hold("b", "1", "c")
		time.Sleep(time.Second) // its watches are armed
		w.f.Delete(a.Keys[0])
		synctest.Wait()
		begin := time.Now()
		go func() {
			time.Sleep(h - 1)
			assert.NotNil(w, w.f.Get(a.Keys[1]))
		}()
		var saved Saved
		require.NoError(w, d.Detach(func(s Saved) error { saved = s; return nil }))
		assert.GreaterOrEqual(w, time.Since(begin), h)
		require.NoError(w, d.client.Close())
		next := w.daemon()
		taken, err := next.Resume(w.Context(), saved)
		require.NoError(w, err)
		assert.Equal(w, 1, taken)
		time.Sleep(5 * time.Second) // what was unsettled is removed
		assert.Nil(w, w.f.Get(a.Keys[1]))
	})
}

// Others go on while pawld waits for them, before it stops to serve.
func TestWhatIsLeftOfALostSetIsWaitedForWhilePawldServes(t *testing.T) {
	inBubble(t, func(w *fixture) {
		d := w.daemon()
		a := d.acquire("a", "1", time.Second, setOf(nil, "a", "b"))
		d.hold("b", "1", "c")
		d.keep("b")
		time.Sleep(time.Second) // its watches are armed
		w.f.Delete(a.Keys[0])
		synctest.Wait()
		begin := time.Now()
		d.AwaitValidity(w.Context())
		assert.Equal(w, h, time.Since(begin))
		assert.Equal(w, registry.Held, d.one("b").State)
		synctest.Wait()
		assert.Nil(w, w.f.Get(a.Keys[1]))
		begin = time.Now()
		require.NoError(w, d.Detach(func(Saved) error { return nil }))
		assert.Zero(w, time.Since(begin))
	})
}

// If a saved row has another form nothing is taken over: all is lost, and ends with the lease.
func TestWhatWasSavedAndIsNotWholeIsLost(t *testing.T) {
	inBubble(t, func(w *fixture) {
		d := w.daemon()
		l := d.hold("a", "1", "name")
		var saved Saved
		require.NoError(w, d.Detach(func(s Saved) error { saved = s; return nil }))
		require.NoError(w, d.client.Close())
		saved.Sessions[0].Rows[0].Keys = nil
		next := w.daemon()
		taken, err := next.Resume(w.Context(), saved)
		require.ErrorContains(w, err, "of another form")
		assert.Zero(w, taken)
		assert.Equal(w, registry.Lost, next.one("a").State)
		time.Sleep(time.Minute)
		assert.Nil(w, w.f.Get(l.Keys[0]))
	})
}

// What somebody has overwritten while no pawld ran is lost at once: the clients of all else are served.
func TestAKeyThatWasOverwrittenHoldsNoRestartUp(t *testing.T) {
	inBubble(t, func(w *fixture) {
		d := w.daemon()
		l := d.hold("a", "1", "name")
		d.hold("b", "1", "other")
		var saved Saved
		require.NoError(w, d.Detach(func(s Saved) error { saved = s; return nil }))
		require.NoError(w, d.client.Close())
		w.f.Put(l.Keys[0], "x", w.f.Get(l.Keys[0]).Lease)
		next := w.daemon()
		begin := time.Now()
		taken, err := next.Resume(w.Context(), saved)
		require.NoError(w, err)
		assert.Less(w, time.Since(begin), time.Second)
		assert.Equal(w, 1, taken)
		lost := next.one("a")
		assert.Equal(w, registry.Lost, lost.State)
		assert.Equal(w, Why("KEY_OVERWRITTEN"), WhyOf(lost.Why))
	})
}

// refuses has etcd refuse what a pawld asks about a name to take it over.
func refuses(w *fixture, name string, err error) (lift func()) {
	return w.f.Inject(etcdfake.Rule{Match: about(name), Err: err, Lose: true}).Lift
}

// What etcd refuses for good is lost at once, by name, and keeps no other lock from being taken over and
// served. Its key stays for as long as its client may believe, and no longer than it may be deleted.
func TestALockThatIsRefusedForGoodHoldsNoRestartUp(t *testing.T) {
	one, set := exclusive("refused"), setOf(nil, "refused", "more")
	for name, c := range map[string]struct {
		want    Want
		prepare func(w *fixture, saved *Saved) (lift func())
		text    string
	}{
		"permission": {one, func(w *fixture, _ *Saved) func() {
			return refuses(w, "refused", status.Error(codes.PermissionDenied, "etcdserver: permission denied"))
		}, "permission denied"},
		"a set's permission": {set, func(w *fixture, _ *Saved) func() {
			return refuses(w, "more", status.Error(codes.PermissionDenied, "etcdserver: permission denied"))
		}, "permission denied"},
		"too many operations": {set, func(w *fixture, _ *Saved) func() {
			return refuses(w, "refused", status.Error(codes.InvalidArgument, "etcdserver: too many operations in txn request"))
		}, "too many operations"},
		"another kind": {one, func(w *fixture, saved *Saved) func() {
			saved.Sessions[rowOf(*saved, "a")].Rows[0].Params.Text = textOf(Want{Names: []string{"refused"}, Modes: []Mode{Election}})
			return func() {}
		}, "acquired as something else"},
		"no key of the name's": {one, func(w *fixture, saved *Saved) func() {
			saved.Sessions[rowOf(*saved, "a")].Rows[0].Params.Text = textOf(exclusive("another"))
			return func() {}
		}, "is not one of lease"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *fixture) {
				d := w.daemon()
				l := d.acquire("a", "1", time.Second, c.want).Lock
				require.Equal(w, registry.Held, l.State)
				d.hold("b", "1", "served")
				begin := time.Now()
				validity := d.one("a").Valid
				saved := d.left()
				lift := c.prepare(w, &saved)
				next := w.daemon()
				var said bytes.Buffer
				next.cfg.Logger = slog.New(slog.NewTextHandler(&said, nil))
				taken, err := next.Resume(w.Context(), saved)
				require.NoError(w, err)
				assert.Less(w, time.Since(begin), 100*time.Millisecond)
				assert.Equal(w, 1, taken)
				assert.Equal(w, registry.Held, next.one("b").State)
				lost := next.one("a")
				assert.Equal(w, registry.Lost, lost.State)
				assert.ErrorContains(w, lost.Why, c.text)
				assert.Contains(w, said.String(), "a lock is lost")
				assert.Contains(w, said.String(), lost.Names[0])
				assert.NotContains(w, said.String(), "served")
				time.Sleep(validity - 1 - time.Since(begin))
				synctest.Wait()
				for _, key := range l.Keys {
					assert.NotNil(w, w.f.Get(key), "its client believes until now")
				}
				time.Sleep(16 * time.Second)
				lift()
				time.Sleep(time.Second)
				for _, key := range l.Keys {
					assert.Nil(w, w.f.Get(key))
				}
			})
		})
	}
}

// rowOf is the index of a session.
func rowOf(saved Saved, session string) int {
	return slices.IndexFunc(saved.Sessions, func(s SavedSession) bool { return s.ID == session })
}

func textOf(w Want) string { return w.params().Text }

// What etcd does not answer for now is tried for as long as a client can believe in it, and then it
// is lost.
func TestALockThatCannotBeTakenOverHoldsARestartUpForABoundedTime(t *testing.T) {
	for name, lasts := range map[string]time.Duration{"for a while": 8 * time.Second, "for longer": time.Hour} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *fixture) {
				d := w.daemon()
				d.hold("a", "1", "silent")
				d.hold("b", "1", "other")
				saved := d.left()
				time.AfterFunc(lasts, refuses(w, "silent", status.Error(codes.Unavailable, "etcdserver: request timed out")))
				next := w.daemon()
				begin := time.Now()
				taken, err := next.Resume(w.Context(), saved)
				require.NoError(w, err)
				if lasts < time.Hour {
					assert.Equal(w, 2, taken)
					return
				}
				assert.Equal(w, 1, taken)
				assert.LessOrEqual(w, time.Since(begin), 16*time.Second)
				lost := next.one("a")
				assert.Equal(w, registry.Lost, lost.State)
				assert.Equal(w, Why("EXPIRED"), WhyOf(lost.Why))
				assert.ErrorContains(w, lost.Why, "request timed out")
			})
		})
	}
}
