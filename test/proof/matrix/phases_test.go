package matrix

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/elect"
	"github.com/pawl-locks/pawl/kv"
	"github.com/pawl-locks/pawl/lock"
	"github.com/pawl-locks/pawl/test/proof/history"
)

// phase is a column of the table. before brings about what it needs; its result
// is what is under way while the fault strikes.
type phase struct {
	name   string
	before func(t *testing.T, w *fixture) (during func(strike func()))
}

var phases = append([]phase{
	{"grant", func(t *testing.T, w *fixture) func(func()) {
		return func(strike func()) {
			strike()
			_ = w.a.session(t)
		}
	}},
	{"enqueue", func(t *testing.T, w *fixture) func(func()) {
		s := w.a.session(t)
		return func(strike func()) {
			strike()
			h := w.a.hold(t, s)
			w.kept(t, w.a.release(t, h))
		}
	}},
	{"wait", func(t *testing.T, w *fixture) func(func()) {
		h, next := w.queued(t)
		return func(strike func()) {
			strike()
			<-w.healed // it is waiting all the while
			w.kept(t, w.b.release(t, h))
			next(true)
		}
	}},
	{"handover", func(t *testing.T, w *fixture) func(func()) {
		h, next := w.queued(t)
		return func(strike func()) {
			var giving sync.WaitGroup
			giving.Go(func() { _ = w.b.release(t, h) }) // ends within the recovery time
			strike()
			giving.Wait()
			next(false)
		}
	}},
	{"hold", func(t *testing.T, w *fixture) func(func()) {
		h := w.a.hold(t, w.a.session(t))
		return func(strike func()) {
			strike()
			w.a.look(h, w.healed)
			w.kept(t, w.a.release(t, h))
		}
	}},
	{"guarded write", func(t *testing.T, w *fixture) func(func()) {
		h := w.a.hold(t, w.a.session(t))
		require.NoError(t, w.a.write(h))
		return func(strike func()) {
			strike()
			w.a.until(t, "a guarded write", func() error {
				_ = w.a.once(h)
				err := w.a.write(h)
				if errors.Is(err, kv.ErrFenced) {
					w.kept(t, err)
					return nil
				}
				return err
			})
			w.kept(t, w.a.release(t, h))
		}
	}},
	{"release", func(t *testing.T, w *fixture) func(func()) {
		h := w.a.hold(t, w.a.session(t))
		return func(strike func()) {
			strike()
			w.kept(t, w.a.release(t, h))
		}
	}},
	{"close", func(t *testing.T, w *fixture) func(func()) {
		s := w.a.session(t)
		h := w.a.hold(t, s)
		return func(strike func()) {
			strike()
			w.a.until(t, "a close", func() (err error) {
				w.a.record(history.Other, "close", patience, func(ctx context.Context, o *history.Op) {
					err = s.Close(ctx)
					o.Outcome = outcome(err)
				})
				return err
			})
			assert.ErrorIs(t, w.a.once(h), lock.ErrLost)
		}
	}},
	{"share", share},
	{"set", severalNames},
	{"permit", permits},
	{"readers wait", readersWait},
	{"writer waits", writerWaits},
	{"set waits", setWaits},
	{"permits wait", permitsWait},
	{"observe", observe},
	{"shards", shardsMove},
}, termsPhases...)

// share has b hold the lock shared, and a acquire it too while the fault strikes. Both
// hold it then, and give it back.
func share(t *testing.T, w *fixture) func(func()) {
	first := w.b.holdAs(t, w.b.session(t), true)
	s := w.a.session(t)
	return func(strike func()) {
		strike()
		second := w.a.holdAs(t, s, true)
		for _, h := range []struct {
			of   *person
			held *lock.Held
		}{{w.b, first}, {w.a, second}} {
			assert.True(t, h.held.Shared())
			_ = h.of.once(h.held)
			w.kept(t, h.of.release(t, h.held))
		}
	}
}

// severalNames has b give two names back that it holds at once while the fault strikes, and a acquire
// both, in the one mode and in the other.
func severalNames(t *testing.T, w *fixture) func(func()) {
	first := w.b.holdSet(t, w.b.session(t), false)
	s := w.a.session(t)
	return func(strike func()) {
		strike()
		_ = w.b.once(first)
		w.kept(t, w.b.release(t, first))
		for _, shared := range []bool{false, true} {
			h := w.a.holdSet(t, s, shared)
			_ = w.a.once(h)
			w.kept(t, w.a.release(t, h))
		}
	}
}

// permits has b hold a slot of a semaphore, and a take another while the fault strikes. Both
// give it back. The name is a lock's before and after.
func permits(t *testing.T, w *fixture) func(func()) {
	first := w.b.holdSlot(t, w.b.session(t))
	_ = w.b.once(first)
	s := w.a.session(t)
	return func(strike func()) {
		strike()
		second := w.a.holdSlot(t, s)
		_ = w.a.once(second)
		if !w.fault.loses && w.survives(t, first.Err(), "the first slot was kept") {
			assert.Equal(t, 0, first.Slot())
			assert.Equal(t, 1, second.Slot())
		}
		w.kept(t, w.b.release(t, first))
		w.kept(t, w.a.release(t, second))
	}
}

// kept checks that a lock was not lost, unless the fault may do that.
func (w *fixture) kept(t *testing.T, err error) {
	t.Helper()
	if !w.fault.loses {
		w.survives(t, err, "the lock was kept through it")
	}
}

// observe has a lead and proclaim while another watches.
func observe(t *testing.T, w *fixture) func(func()) {
	name := w.name // the same queue: an election's keys look like a lock's
	term := w.campaign(t)
	ctx, cancel := context.WithCancel(context.Background())
	seen := make(chan elect.Leader, 1000)
	var watching sync.WaitGroup
	watching.Go(func() { // ends with ctx
		for ctx.Err() == nil {
			for l, err := range elect.Observe(ctx, w.b.client, name, elect.Options{}) {
				if err != nil {
					break
				}
				seen <- l
			}
		}
	})
	t.Cleanup(func() { cancel(); watching.Wait() })
	sees := func(value string) {
		deadline := time.After(recovery)
		last := int64(0)
		for {
			select {
			case l := <-seen:
				assert.GreaterOrEqual(t, l.Revision, last, "what is observed does not go back")
				if last = l.Revision; string(l.Value) == value {
					return
				}
			case <-deadline:
				require.Fail(t, "never observed", value)
			}
		}
	}
	sees("first")
	return func(strike func()) {
		strike()
		w.a.until(t, "a proclamation", func() (err error) {
			if term.Err() != nil {
				w.kept(t, term.Err())
				term = w.campaign(t)
			}
			w.a.record(history.Other, "proclaim", patience, func(ctx context.Context, o *history.Op) {
				err = term.Proclaim(ctx, []byte("second"))
				o.Outcome = outcome(err)
			})
			return err
		})
		sees("second")
		w.a.until(t, "a resignation", func() (err error) {
			w.a.record(history.Other, "resign", patience, func(ctx context.Context, o *history.Op) {
				err = term.Resign(ctx)
				o.Outcome = outcome(err)
			})
			if errors.Is(err, elect.ErrLost) {
				return nil
			}
			return err
		})
		cancel()
		watching.Wait()
	}
}

// campaign makes a campaign until it is elected, with as many calls as it takes.
func (w *fixture) campaign(t *testing.T) (term *elect.Term) {
	var s *pawl.Session
	w.a.until(t, "an election", func() (err error) {
		if s == nil || s.Err() != nil {
			s = w.a.session(t)
		}
		w.a.record(history.Other, "campaign", patience, func(ctx context.Context, o *history.Op) {
			term, err = elect.New(s, w.name, elect.Options{}).Campaign(ctx, []byte("first"))
			o.Outcome = outcome(err)
		})
		return err
	})
	return term
}
