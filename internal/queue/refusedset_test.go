package queue

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-locks/pawl/internal/session"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

// most returns the queues of as many names as a set has at most, all of them shared.
func (w *fixture) most() (all []Queue) {
	for i := range 32 {
		q, err := New("", fmt.Sprint("name", i), false)
		require.NoError(w, err)
		q.Shared = true
		all = append(all, q)
	}
	return all
}

// ML1: a refusal is explained for as many names as a set may have, in any mode.
func TestTheLargestSetLearnsWhyItIsRefused(t *testing.T) {
	t.Run("busy since the read", func(t *testing.T) {
		inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
			all := w.most()
			one := all[31]
			one.Shared = false
			s, other := w.session(), w.session()
			w.f.Inject(isEnqueue.rule(etcdfake.Rule{Delay: time.Second, Times: 1}))
			done := make(chan error, 1)
			ctx, cancel := context.WithTimeout(w.Context(), 10*time.Second)
			defer cancel()
			go func() {
				_, err := Acquire(ctx, s, Request{Try: true}, all...)
				done <- err
			}()
			synctest.Wait()
			c, err := Acquire(w.Context(), other, Request{}, one)
			require.NoError(w, err)
			require.ErrorIs(w, <-done, ErrBusy)
			w.release(c)
			w.clear()
		})
	})
}

// cancels returns the cancel keys and marks that sessions have left below the session keys.
func cancels(w *fixture, s *session.Session) []string {
	key, _ := s.Key()
	return w.f.Keys(key + "/")
}

// SM1: the cancel key that a take has put is deleted with the slot, however the slot is given up.
func TestNoCancelKeyIsLeftOfATake(t *testing.T) {
	for name, end := range map[string]func(w *fixture, s *session.Session, p *Acquisition) *session.Session{
		"released": func(w *fixture, s *session.Session, p *Acquisition) *session.Session {
			w.release(p)
			return s
		},
		"held for too long": func(w *fixture, s *session.Session, p *Acquisition) *session.Session {
			p.Forfeit(ErrMaxHold)
			return s
		},
		"deleted by an operator": func(w *fixture, s *session.Session, p *Acquisition) *session.Session {
			time.Sleep(time.Second)
			w.f.Delete(p.Key())
			return s
		},
		"deleted by an operator, found by the release": func(w *fixture, s *session.Session, p *Acquisition) *session.Session {
			w.f.Delete(p.Key())
			require.ErrorIs(w, p.Release(w.Context(), errGivenBack), ErrKeyDeleted)
			return s
		},
		"overwritten": func(w *fixture, s *session.Session, p *Acquisition) *session.Session {
			time.Sleep(time.Second)
			w.f.Put(p.Key(), "x", s.ID())
			return s
		},
		"resumed": func(w *fixture, s *session.Session, p *Acquisition) *session.Session {
			next := w.successor(s)
			back, err := Resume(w.Context(), next, []string{p.Key()}, p.Token(), Limits{}, w.queue())
			require.NoError(w, err)
			w.release(back)
			return next
		},
		"resumed, and kept for a while": func(w *fixture, s *session.Session, p *Acquisition) *session.Session {
			next := w.successor(s)
			back, err := Resume(w.Context(), next, []string{p.Key()}, p.Token(), Limits{AtLeast: time.Second}, w.queue())
			require.NoError(w, err)
			require.NoError(w, back.Release(w.Context(), errGivenBack))
			return next
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
				w.limit = 1
				s := w.session()
				p := w.acquire(s)
				require.Len(w, cancels(w, s), 1, "the take has put none")
				s = end(w, s, p)
				time.Sleep(5 * time.Second)
				synctest.Wait()
				assert.Empty(w, cancels(w, s), "a cancel key is left")
				w.clear()
			})
		})
	}
}
