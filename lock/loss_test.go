package lock_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	clientpb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/etcdapi"
	"github.com/pawl-locks/pawl/internal/session"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
)

// A blow is something that ends an acquisition, its session, or its client.
type blow struct {
	name   string
	cause  error
	quiet  bool // only the cluster knows, and a watch or a read finds it
	strike func(w *fixture, c *pawl.Client, s *pawl.Session, key string)
}

var blows = []blow{
	{"own key deleted", lock.ErrKeyDeleted, true, func(w *fixture, _ *pawl.Client, _ *pawl.Session, key string) { w.f.Delete(key) }},
	{"own key overwritten on no lease", lock.ErrKeyOverwritten, true, func(w *fixture, _ *pawl.Client, _ *pawl.Session, key string) {
		w.f.Put(key, "x", 0)
	}},
	{"own key overwritten on another lease", lock.ErrKeyOverwritten, true, func(w *fixture, _ *pawl.Client, _ *pawl.Session, key string) {
		w.f.Put(key, "x", w.session().ID())
	}},
	{"own key overwritten on its own lease", lock.ErrKeyOverwritten, true, func(w *fixture, _ *pawl.Client, s *pawl.Session, key string) {
		w.f.Put(key, "x", s.ID())
	}},
	{"own key deleted and recreated", lock.ErrKeyDeleted, true, func(w *fixture, _ *pawl.Client, _ *pawl.Session, key string) {
		w.f.Delete(key)
		w.f.Put(key, "x", w.session().ID())
	}},
	{"lease revoked", lease.ErrRevoked, true, func(w *fixture, _ *pawl.Client, s *pawl.Session, _ string) { w.f.Revoke(s.ID()) }},
	{"session key deleted", lease.ErrRevoked, true, func(w *fixture, _ *pawl.Client, s *pawl.Session, _ string) {
		for _, k := range w.f.Keys("//pawl/") {
			if l, _ := w.f.Lease(s.ID()); len(l.Keys) > 0 && contains(l.Keys, k) {
				w.f.Delete(k)
			}
		}
	}},
	{"session closed", lease.ErrClosed, false, func(w *fixture, _ *pawl.Client, s *pawl.Session, _ string) {
		assert.NoError(w, s.Close(w.Context()))
	}},
	{"session detached", lease.ErrClosed, false, func(w *fixture, _ *pawl.Client, s *pawl.Session, _ string) { s.Detach() }},
	{"client closed", lease.ErrClosed, false, func(w *fixture, c *pawl.Client, _ *pawl.Session, _ string) { _ = c.Close() }},
	{"cluster changed", pawl.ErrClusterChanged, true, func(w *fixture, c *pawl.Client, _ *pawl.Session, _ string) {
		w.f.Inject(etcdfake.Rule{Method: "Txn", Edit: func(_ etcdfake.Request, m etcdapi.Message) {
			m.(*clientpb.TxnResponse).Header.Revision = 1
		}})
		_, _ = c.Session(w.Context()) // no request
	}},
}

func contains(all []string, s string) bool {
	for _, a := range all {
		if a == s {
			return true
		}
	}
	return false
}

// eachBlow runs f in a fixture for each blow, with the client and session that it strikes.
func eachBlow(t *testing.T, f func(w *fixture, b blow, c *pawl.Client, s *pawl.Session)) {
	for _, b := range blows {
		t.Run(b.name, func(t *testing.T) {
			inBubble(t, func(w *fixture) {
				c := w.client(pawl.Config{})
				s, err := c.Session(w.Context())
				require.NoError(w, err)
				f(w, b, c, s)
			})
		})
	}
}

// swift reports whether a blow is noticed within 100 ms. A changed cluster is noticed only at the
// next request.
func (b blow) swift() bool { return b.cause != pawl.ErrClusterChanged }

// Hazards H1, H3: after the arming delay a loss is reported within 100 ms, with one cause that
// stays.
// rule: H1
func TestLossIsReportedWithin100MillisecondsOfArming(t *testing.T) {
	eachBlow(t, func(w *fixture, b blow, c *pawl.Client, s *pawl.Session) {
		h := w.acquire(s)
		ctx, done := h.Context(), h.Done()
		time.Sleep(session.ArmDelay + 10*time.Millisecond)
		w.held(h)
		b.strike(w, c, s, h.Key())
		began := time.Now()
		<-done
		if b.swift() {
			assert.LessOrEqual(w, time.Since(began), 100*time.Millisecond)
		}
		synctest.Wait()
		assert.Equal(w, h.Err(), context.Cause(ctx))
		w.lostBy(b.cause, h)
	})
}

// H4: what happened before the arming is reported once the watch is armed, because the watch begins
// at the acquisition's revision.
func TestLossBeforeArmingIsReportedOnceArmed(t *testing.T) {
	eachBlow(t, func(w *fixture, b blow, c *pawl.Client, s *pawl.Session) {
		h := w.acquire(s)
		time.Sleep(time.Millisecond)
		done := h.Done()
		b.strike(w, c, s, h.Key())
		began := time.Now()
		<-done
		if b.swift() {
			assert.LessOrEqual(w, time.Since(began), session.ArmDelay+100*time.Millisecond)
		}
		synctest.Wait()
		w.lostBy(b.cause, h)
	})
}

// Hazard H4, rule N1: a deletion whose event is swallowed is found by the read that comes with each
// renewal.
// rule: H2
func TestLossThatTheWatchMissedIsFoundByARenewal(t *testing.T) {
	eachBlow(t, func(w *fixture, b blow, c *pawl.Client, s *pawl.Session) {
		if !b.quiet {
			w.Skip("this process itself does it")
		}
		w.f.Inject(etcdfake.Rule{Method: "Watch", Lose: true})
		h := w.acquire(s)
		time.Sleep(time.Second)
		done := h.Done()
		b.strike(w, c, s, h.Key())
		began := time.Now()
		<-done
		assert.LessOrEqual(w, time.Since(began), s.TTL()/4+time.Second)
		synctest.Wait()
		w.lostBy(b.cause, h)
	})
}

// noStreams ends all streams of watches and lets none be opened.
func (w *fixture) noStreams() *etcdfake.Fault {
	f := w.f.Inject(etcdfake.Rule{Method: "Watch", Opening: true, Err: rpctypes.ErrGRPCNoLeader})
	for _, m := range w.f.Members() {
		m.EndStreams("Watch", rpctypes.ErrGRPCNoLeader)
	}
	return f
}

// N6: a session whose key was rewritten acquires nothing more, although no watch has reported it.
// Another process has taken the session over, or somebody wrote to the key. A waiter that comes
// first does not acquire either.
func TestASessionWhoseKeyWasRewrittenAcquiresNothing(t *testing.T) {
	rewrite := func(w *fixture, s *pawl.Session) {
		w.f.Put(fmt.Sprintf("//pawl/%x", s.ID()), "another's", s.ID())
	}
	for name, acquire := range map[string]func(m *lock.Mutex) error{
		"Acquire":    func(m *lock.Mutex) error { _, err := m.Acquire(context.Background()); return err },
		"TryAcquire": func(m *lock.Mutex) error { _, err := m.TryAcquire(context.Background()); return err },
	} {
		inBubble(t, func(w *fixture) {
			s := w.session()
			synctest.Wait()
			w.noStreams()
			rewrite(w, s)
			rev := w.f.Revision()
			w.oneCause(lease.ErrRevoked, acquire(mutex(s)))
			assert.Equal(w, rev, w.f.Revision(), "%s has written", name)
		})
	}
	inBubble(t, func(w *fixture) {
		h := w.acquire(w.session())
		s := w.session()
		a := w.waiting(s)
		f := w.f.Inject(etcdfake.Rule{Op: "confirm position", Delay: time.Second, Times: 1})
		w.release(h)
		time.Sleep(500 * time.Millisecond)
		require.Equal(w, 1, f.Hits(), "its query is on its way")
		w.noStreams()
		rewrite(w, s)
		w.oneCause(lease.ErrRevoked, a.failed())
	})
}

// Rule R1, hazard U2: a release says whether it was held until then, although nobody watches yet.
// An overwritten key is deleted, and was not held until then.
// rule: R1
func TestReleaseSaysWhetherItWasHeldUntilThen(t *testing.T) {
	eachBlow(t, func(w *fixture, b blow, c *pawl.Client, s *pawl.Session) {
		for _, m := range w.f.Members() { // the session's watch too, which is there already
			m.EditWatches(etcdfake.Silence)
		}
		h := w.acquire(s)
		b.strike(w, c, s, h.Key())
		err := h.Release(w.Context())
		switch {
		case b.name == "session key deleted": // the key was there
			require.NoError(w, err)
			w.released(h)
		case b.cause == pawl.ErrClusterChanged:
			require.Error(w, err) // unconfirmed, because the cluster does not answer
			assert.Error(w, h.Err())
		default:
			w.oneCause(b.cause, err)
			assert.ErrorIs(w, err, lock.ErrLost)
			w.lostBy(b.cause, h)
		}
	})
}

// Hazard A2, rule A3: a waiter that ends returns at once, with the cause alone. The holder is not
// affected.
// rule: A3
func TestAWaitersOwnEndReturnsAtOnce(t *testing.T) {
	t.Run("exclusive", func(t *testing.T) { testAWaitersOwnEnd(t, (*fixture).acquiring) })
	t.Run("shared", func(t *testing.T) { testAWaitersOwnEnd(t, (*fixture).sharing) })
}

func testAWaitersOwnEnd(t *testing.T, start func(*fixture, context.Context, *lock.Mutex) *acquireCall) {
	eachBlow(t, func(w *fixture, b blow, c *pawl.Client, s *pawl.Session) {
		holder := w.acquire(w.session())
		waiter := start(w, w.Context(), mutex(s))
		require.True(w, waiter.waits())
		own := ""
		for _, k := range w.keys() {
			if k != holder.Key() {
				own = k
			}
		}
		time.Sleep(time.Second)
		b.strike(w, c, s, own)
		began := time.Now()
		err := waiter.failed()
		if b.swift() {
			assert.LessOrEqual(w, time.Since(began), 100*time.Millisecond)
		}
		w.oneCause(b.cause, err)
		assert.NotErrorIs(w, err, lock.ErrLost, "it never held")
		if b.cause == pawl.ErrClusterChanged {
			return // for everybody
		}
		require.NoError(w, holder.Confirm(w.Context()))
		w.release(holder)
	})
}

// An Acquire that never won matches only the session's cause, and no request is sent for a dead
// session (hazard S20).
func TestADeadSessionFailsFastWithItsCause(t *testing.T) {
	inBubble(t, func(w *fixture) {
		s := w.session()
		w.f.Revoke(s.ID())
		synctest.Wait()
		time.Sleep(time.Second)
		before := w.f.Counts()
		for range 100 {
			_, err := mutex(s).Acquire(w.Context())
			w.oneCause(lease.ErrRevoked, err)
			assert.NotErrorIs(w, err, lock.ErrLost)
			_, err = mutex(s).TryAcquire(w.Context())
			w.oneCause(lease.ErrRevoked, err)
			w.oneCause(lease.ErrRevoked, mutex(s).Do(w.Context(), func(context.Context, *lock.Held) error { return nil }))
		}
		assert.Empty(w, w.f.Counts().Since(before).Received)
	})
}
