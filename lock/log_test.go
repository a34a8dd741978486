package lock_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/notify"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
)

// A stuckLog is a log's handler that never returns from one of its methods, or always panics there,
// from some moment on.
type stuckLog struct {
	at     string // the method
	panics bool
	stuck  atomic.Bool
	calls  atomic.Int64
	end    chan struct{}
}

func (l *stuckLog) in(method string) {
	switch {
	case !l.stuck.Load() || l.at != method:
		return
	case l.panics:
		l.calls.Add(1)
		panic(method)
	}
	l.calls.Add(1)
	<-l.end
}

func (l *stuckLog) Enabled(context.Context, slog.Level) bool  { l.in("Enabled"); return true }
func (l *stuckLog) Handle(context.Context, slog.Record) error { l.in("Handle"); return nil }
func (l *stuckLog) WithAttrs([]slog.Attr) slog.Handler        { return l }
func (l *stuckLog) WithGroup(string) slog.Handler             { return l }
func (l *stuckLog) client(w *fixture) *pawl.Client            { return w.client(pawl.Config{Logger: slog.New(l)}) }

// everyStuckLog runs f with each kind of log. Its goroutine ends after f.
func everyStuckLog(t *testing.T, f func(w *fixture, l *stuckLog)) {
	for _, l := range []*stuckLog{{at: "Handle"}, {at: "Enabled"}, {at: "Handle", panics: true}, {at: "Enabled", panics: true}} {
		t.Run(fmt.Sprintf("%s, panics: %v", l.at, l.panics), func(t *testing.T) {
			inBubble(t, func(w *fixture) {
				l.end = make(chan struct{})
				defer close(l.end)
				f(w, l)
				assert.NotZero(w, l.calls.Load(), "nothing was logged")
			})
		})
	}
}

// outages are faults of members that a session outlives. Each logs something.
var outages = map[string]func(w *fixture){
	"members that are gone for 4 s": func(w *fixture) {
		for _, m := range w.f.Members() {
			m.Stop()
		}
		time.Sleep(4 * time.Second)
		w.f.Heal()
	},
	"members that are silent for 8 s": func(w *fixture) {
		w.f.BlackHole()
		time.Sleep(8 * time.Second)
		w.f.Heal()
	},
	"a member that is gone": func(w *fixture) { w.f.Member(0).Stop() },
	"members that are gone one after the other": func(w *fixture) {
		for _, m := range w.f.Members() {
			m.Stop()
			time.Sleep(20 * time.Second)
			m.Heal()
			time.Sleep(20 * time.Second)
		}
	},
}

// everyCallReturns asserts that every public call of a client, its session, and a lock returns in time.
func (w *fixture) everyCallReturns(c *pawl.Client, s *pawl.Session, h *lock.Held) {
	const limit = 2 * time.Second
	free := 0
	for name, call := range map[string]func(ctx context.Context) error{
		"Held.Err":       func(context.Context) error { return h.Err() },
		"Held.Deadline":  func(context.Context) error { h.Deadline(); return nil },
		"Held.Confirm":   h.Confirm,
		"Session.Err":    func(context.Context) error { return s.Err() },
		"Client.Session": func(ctx context.Context) error { _, err := c.Session(ctx); return err },
		"NewSession, Acquire, Release, Close": func(ctx context.Context) error {
			n, err := c.NewSession(ctx, lease.Options{})
			if err != nil {
				return err
			}
			free++
			other, err := lock.New(n, fmt.Sprint("free", free), lock.Options{}).Acquire(ctx)
			if err != nil {
				return err
			}
			return errors.Join(other.Release(ctx), n.Close(ctx))
		},
		"Acquire of a lock that is held": func(ctx context.Context) error {
			_, err := lock.New(s, "name", lock.Options{}).Acquire(ctx)
			return err
		},
	} {
		ctx, cancel := context.WithTimeout(w.Context(), limit)
		assert.LessOrEqual(w, w.took(func() { _ = call(ctx) }), limit+100*time.Millisecond, name)
		cancel()
	}
}

func (w *fixture) took(f func()) time.Duration {
	began := time.Now()
	f()
	return time.Since(began)
}

// A log that stands still costs nothing but records.
// rule: T6
func TestALogThatStandsStillTakesNoLockAway(t *testing.T) {
	for name, outage := range outages {
		t.Run(name, func(t *testing.T) {
			everyStuckLog(t, func(w *fixture, l *stuckLog) {
				c := l.client(w)
				s, err := c.Session(w.Context())
				require.NoError(w, err)
				h := w.acquire(s)
				waiter := w.waiting(s)
				l.stuck.Store(true)
				outage(w)
				time.Sleep(time.Hour)
				w.held(h)
				require.True(w, waiter.waits())
				w.everyCallReturns(c, s, h)
				w.release(h)
				w.release(waiter.won())
				assert.LessOrEqual(w, w.took(func() { assert.NoError(w, c.Close()) }), notify.LogGrace)
			})
		})
	}
}

// ends are what ends a session or a hold, and logs something.
var ends = map[string]func(w *fixture, s *pawl.Session, h *lock.Held){
	"the lease is revoked":   func(w *fixture, s *pawl.Session, _ *lock.Held) { w.f.Revoke(s.ID()) },
	"the key is deleted":     func(w *fixture, _ *pawl.Session, h *lock.Held) { w.f.Delete(h.Key()) },
	"the key is overwritten": func(w *fixture, _ *pawl.Session, h *lock.Held) { w.f.Put(h.Key(), "other", 0) },
	"the session is closed":  func(w *fixture, s *pawl.Session, _ *lock.Held) { assert.NoError(w, s.Close(w.Context())) },
}

// rule: T6
func TestALossIsSeenAtOnceWhileTheLogStandsStill(t *testing.T) {
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			everyStuckLog(t, func(w *fixture, l *stuckLog) {
				c := l.client(w)
				s, err := c.Session(w.Context())
				require.NoError(w, err)
				h := w.acquire(s)
				done, ctx := h.Done(), h.Context()
				time.Sleep(time.Second) // its key is watched
				l.stuck.Store(true)
				end(w, s, h)
				synctest.Wait()
				assert.True(w, isClosed(done))
				assert.Error(w, ctx.Err())
				w.everyCallReturns(c, s, h)
				assert.LessOrEqual(w, w.took(func() { _ = c.Close() }), 2*time.Second+notify.LogGrace)
			})
		})
	}
}

// Nothing stands between a deadline and what must end at it.
// rule: T6
func TestDoEndsAtTheDeadlineWhileTheLogStandsStill(t *testing.T) {
	everyStuckLog(t, func(w *fixture, l *stuckLog) {
		c := l.client(w)
		s, err := c.Session(w.Context())
		require.NoError(w, err)
		var ended, done time.Time
		held, work := make(chan struct{}), make(chan error, 1)
		go func() {
			work <- mutex(s).Do(w.Context(), func(ctx context.Context, h *lock.Held) error {
				close(held)
				<-ctx.Done()
				ended = time.Now()
				<-h.Done()
				done = time.Now()
				return context.Cause(ctx)
			})
		}()
		<-held
		l.stuck.Store(true)
		other := w.waiting(w.session())
		time.Sleep(s.TTL())
		deadline := s.Deadline()
		w.f.Inject(etcdfake.Rule{Method: "LeaseKeepAlive", Hang: true, Match: func(r etcdfake.Request) bool {
			renewal, ok := r.Message.(*pb.LeaseKeepAliveRequest)
			return ok && renewal.ID == s.ID()
		}})
		assert.ErrorIs(w, <-work, lease.ErrExpired)
		assert.Equal(w, deadline, ended)
		assert.Equal(w, deadline, done)
		w.release(other.won())
		assert.False(w, time.Now().Before(deadline), "the other holds before it")
	})
}

// A hold's own limit is a deadline, too.
// rule: T6
func TestAHoldEndsAtItsLimitWhileTheLogStandsStill(t *testing.T) {
	everyStuckLog(t, func(w *fixture, l *stuckLog) {
		s, err := l.client(w).Session(w.Context())
		require.NoError(w, err)
		l.stuck.Store(true)
		w.f.Member(0).Stop() // is logged
		h := w.acquireWith(s, lock.Options{MaxHold: time.Minute})
		end := time.Now().Add(time.Minute)
		<-h.Done()
		assert.Equal(w, end, time.Now())
		w.lostBy(lock.ErrMaxHold, h)
	})
}
