package matrix

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
	"github.com/pawl-locks/pawl/test/proof/history"
)

// These phases are about what is agreed beside a mode: AtLeast, LockDelay, MaxHold, a takeover with them,
// Wanted, etcd's layout and Once.
var termsPhases = []phase{
	{"AtLeast", atLeast},
	{"lock-delay", lockDelay},
	{"takeover", takeover},
	{"wanted", wanted},
	{"job", job},
}

// stays is for how long keys have to stay in these phases, at least.
const stays = time.Second

// A stay is a key that may not go earlier.
type stay struct {
	key   string
	until time.Duration
	why   string
}

// has has the key of h stay for as long as it has to from since on, unless an operator ends that.
func (w *fixture) has(h *lock.Held, since time.Duration, why string) {
	if len(w.fault.strikes) == 0 {
		w.stays = append(w.stays, stay{h.Key(), since + stays, why})
	}
}

// stayed checks that what had to stay has stayed. The oracle has seen a key go later than it went.
func (s *sightings) stayed(t *testing.T, all []stay) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range all {
		if gone, ok := s.deleted[one.key]; ok {
			assert.GreaterOrEqual(t, gone, one.until, "%s: %s", one.why, one.key)
		}
	}
}

// holdWith is hold of a name with options, on a session with a lock-delay. It returns that session too.
func (p *person) holdWith(t *testing.T, name string, o lock.Options) (h *lock.Held, s *pawl.Session) {
	p.until(t, "the lock", func() (err error) {
		if s == nil || s.Err() != nil {
			p.record(history.Other, "session", patience, func(ctx context.Context, o *history.Op) {
				s, err = p.client.NewSession(ctx, lease.Options{TTL: p.w.fault.ttl(), LockDelay: stays})
				o.Outcome = outcome(err)
			})
			if err != nil {
				return err
			}
		}
		h, err = p.acquireWith(s, name, o, patience)
		return err
	})
	return h, s
}

// acquireWith is acquire with options.
func (p *person) acquireWith(s *pawl.Session, name string, opts lock.Options, limit time.Duration) (h *lock.Held, err error) {
	p.record(history.Acquire, name, limit, func(ctx context.Context, o *history.Op) {
		h, err = lock.New(s, name, opts).Acquire(ctx)
		if o.Outcome = history.OK; err != nil {
			o.Outcome, o.Err = history.Refused, err.Error()
		} else {
			o.Token = int64(h.Token())
		}
	})
	return h, err
}

// atLeast has a give back a lock that has to stay, while the fault strikes, and b wait for it.
func atLeast(t *testing.T, w *fixture) func(func()) {
	began := w.rec.Now()
	h, s := w.a.holdWith(t, w.name, lock.Options{AtLeast: stays})
	return func(strike func()) {
		strike()
		w.kept(t, w.a.release(t, h))
		next := w.b.hold(t, w.b.session(t))
		_ = w.b.once(next)
		if s.Err() == nil { // otherwise the session's end has ended it
			w.has(h, began, "AtLeast")
		}
		w.kept(t, w.b.release(t, next))
	}
}

// lockDelay has two holds of a's end without their release while the fault strikes: one lasts too long, and the
// session of the other is closed. b waits for both.
func lockDelay(t *testing.T, w *fixture) func(func()) {
	last := w.rec.Now() // when it was seen to be held, or was not held yet
	long, _ := w.a.holdWith(t, w.name, lock.Options{MaxHold: stays})
	limit := w.rec.Now() + stays
	closed, s := w.a.holdWith(t, w.second(), lock.Options{})
	return func(strike func()) {
		strike()
		for at := w.rec.Now(); w.a.once(long) == nil; at = w.rec.Now() {
			last = at
			require.LessOrEqual(t, at, limit, "it is held for longer than MaxHold")
			time.Sleep(10 * time.Millisecond)
		}
		w.has(long, last, "a lock-delay after MaxHold")
		if at := w.rec.Now(); w.a.once(closed) == nil {
			w.has(closed, at, "a lock-delay after a close")
		}
		_ = s.Close(w.within(t))
		for _, name := range []string{w.name, w.second()} {
			h, _ := w.b.holdWith(t, name, lock.Options{})
			_ = w.b.once(h)
			w.kept(t, w.b.release(t, h))
		}
	}
}

// takeover has b take over a's session with what it holds, and has to stay, while the fault strikes, and a wait
// for it.
func takeover(t *testing.T, w *fixture) func(func()) {
	began := w.rec.Now()
	h, s := w.a.holdWith(t, w.name, lock.Options{AtLeast: stays})
	return func(strike func()) {
		strike()
		at := w.rec.Now()
		valid := w.a.once(h) == nil
		handle := s.Detach()
		assert.Error(t, w.a.once(h), "what was handed over is held elsewhere")
		next := w.takenOver(t, handle)
		resumed := w.resumed(t, next, h)
		if resumed != nil {
			assert.Equal(t, h.Token(), resumed.Token())
			w.kept(t, resumed.Release(w.within(t)))
		} else if valid {
			w.has(h, at, "a lock-delay of what nobody has resumed")
		}
		if resumed == nil && next != nil {
			_ = next.Close(w.within(t)) // what cannot be resumed ends with it
		}
		last := w.a.hold(t, w.a.session(t))
		_ = w.a.once(last)
		if resumed != nil && next.Err() == nil {
			w.has(h, began, "AtLeast after a takeover")
		}
		w.kept(t, w.a.release(t, last))
		if resumed != nil {
			_ = next.Close(w.within(t))
		}
	}
}

// takenOver is b's session with a handle, or nil if its lease is gone.
func (w *fixture) takenOver(t *testing.T, handle lease.Handle) (next *pawl.Session) {
	if handle == (lease.Handle{}) {
		return nil
	}
	w.b.until(t, "a takeover", func() (err error) {
		w.b.record(history.Other, "takeover", patience, func(ctx context.Context, o *history.Op) {
			next, err = w.b.client.NewSession(ctx, lease.Options{Resume: handle})
			o.Outcome = outcome(err)
		})
		if errors.Is(err, lease.ErrRevoked) {
			return nil
		}
		return err
	})
	return next
}

// resumed is what b has of h in the session that took a's over, or nil if that is lost. Its token is a's, so it
// is no part of the history.
func (w *fixture) resumed(t *testing.T, next *pawl.Session, h *lock.Held) (resumed *lock.Held) {
	if next == nil {
		return nil
	}
	w.b.until(t, "a resumption", func() (err error) {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if resumed, err = lock.New(next, h.Name(), lock.Options{}).Resume(ctx, h.Key(), h.Token()); err == nil {
			return nil
		}
		overwritten := len(w.fault.strikes) > 0 && !errors.Is(err, context.DeadlineExceeded)
		if overwritten || errors.Is(err, lock.ErrLost) || next.Err() != nil {
			return nil
		}
		return err
	})
	return resumed
}

// wanted has b, which holds in etcd's layout, ask whether somebody waits, while a does and the fault strikes.
func wanted(t *testing.T, w *fixture) func(func()) {
	name, o := w.name+"/in", lock.Options{EtcdLayout: true}
	h, _ := w.b.holdWith(t, name, o)
	q := waits(t, w, 2, func(s *pawl.Session) (*lock.Held, error) { return w.a.acquireWith(s, name, o, recovery) })
	return func(strike func()) {
		strike()
		if c := h.Wanted(); c != nil {
			select {
			case <-c:
			case <-h.Done():
			case <-time.After(testscale.Hang):
				assert.Fail(t, "somebody waits, and it is never wanted")
			}
		}
		w.kept(t, w.b.release(t, h))
		w.end(t, q.won(t, nil))
	}
}

// job has a and b run a job that is due while the fault strikes, until each knows that it was run. Once a run is
// recorded, nobody runs it again.
func job(t *testing.T, w *fixture) func(func()) {
	due := time.Now()
	return func(strike func()) {
		strike()
		began, ended, recorded := 0, 0, 0
		for _, p := range []*person{w.a, w.b, w.a} {
			var s *pawl.Session
			p.until(t, "a job", func() (err error) {
				if s == nil || s.Err() != nil {
					s = p.session(t)
				}
				ran := false
				p.record(history.Other, "once", patience, func(ctx context.Context, o *history.Op) {
					ran, err = lock.New(s, w.name, lock.Options{}).Once(ctx, due, func(context.Context, *lock.Held) error {
						began++
						return nil
					})
					o.Outcome = outcome(err)
				})
				if ran {
					ended++
				}
				if ran && err == nil {
					assert.Zero(t, recorded, "a run that was recorded is repeated")
				}
				if err == nil {
					recorded++
				}
				return err
			})
		}
		assert.Equal(t, began, ended)
		assert.Positive(t, began, "nobody has run it")
		w.a.until(t, "the record's end", func() error {
			_, err := w.oracle.Delete(w.within(t), keys.OnceKey("", w.name))
			return err
		})
	}
}
