package lock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/kv"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
)

// A stillParent is a caller's context of a type of its own, one method of which never returns from some
// moment on.
type stillParent struct {
	context.Context
	at    string // the method
	still atomic.Bool
	calls atomic.Int64
	end   chan struct{}
	once  sync.Once
}

// goOn lets it return again.
func (p *stillParent) goOn() { p.once.Do(func() { close(p.end) }) }

func (p *stillParent) in(method string) {
	if p.at == method && p.still.Load() {
		p.calls.Add(1)
		<-p.end
	}
}

func (p *stillParent) Done() <-chan struct{} { p.in("Done"); return p.Context.Done() }
func (p *stillParent) Err() error            { p.in("Err"); return p.Context.Err() }
func (p *stillParent) Value(key any) any     { p.in("Value"); return p.Context.Value(key) }

func (p *stillParent) Deadline() (time.Time, bool) { p.in("Deadline"); return p.Context.Deadline() }

// A hookedParent also has what package context looks for in a parent. The functions that it returns do
// not return from some moment on.
type hookedParent struct{ *stillParent }

// Value hides the context inside of it, so that package context calls AfterFunc.
func (p hookedParent) Value(any) any { return nil }

func (p hookedParent) AfterFunc(f func()) func() bool {
	stop := context.AfterFunc(p.Context, f)
	return func() bool { p.in("AfterFunc"); return stop() }
}

// stillParents runs f in a bubble with each kind of such a parent.
func stillParents(t *testing.T, members int, f func(w *fixture, p *stillParent, parent context.Context)) {
	for _, at := range []string{"Value", "Done", "Err", "Deadline", "AfterFunc"} {
		t.Run(at, func(t *testing.T) {
			inBubbleOf(t, members, func(w *fixture) {
				own, cancel := context.WithCancel(w.Context())
				p := &stillParent{Context: own, at: at, end: make(chan struct{})}
				defer func() {
					p.goOn()
					cancel()
					synctest.Wait()
				}()
				parent := context.Context(p)
				if at == "AfterFunc" {
					parent = hookedParent{p}
				}
				f(w, p, parent)
			})
		})
	}
}

// lossesOfAll end all holds of a session.
var lossesOfAll = map[string]func(w *fixture, holds []*lock.Held){
	"the deadline": func(w *fixture, _ []*lock.Held) { w.f.BlackHole() },
	"their deletion": func(w *fixture, holds []*lock.Held) {
		for _, h := range holds {
			w.f.Delete(h.Key())
		}
	},
}

// A caller's context that stands still, under which there are contexts of a lock, a bound one and an
// Acquire under way, holds up no other lock's.
// rule: T6
func TestAParentThatStandsStillHoldsUpNoOtherLocksContext(t *testing.T) {
	for name, loss := range lossesOfAll {
		t.Run(name, func(t *testing.T) {
			stillParents(t, 3, func(w *fixture, p *stillParent, parent context.Context) {
				s := w.session()
				other := w.acquire(w.session())
				var holds []*lock.Held
				var ends []<-chan struct{}
				var contexts []context.Context
				add := func(name string, parent context.Context) {
					h := w.acquireName(s, name)
					holds, ends = append(holds, h), append(ends, h.Done())
					contexts = append(contexts, h.Context())
					bound, cancel := h.Bind(parent)
					w.Cleanup(cancel)
					contexts = append(contexts, bound)
					entered := make(chan context.Context, 1)
					go h.Do(parent, func(ctx context.Context) error { //nolint:errcheck // its result is that of the loss
						entered <- ctx
						<-ctx.Done()
						return nil
					})
					contexts = append(contexts, <-entered)
				}
				add("before", w.Context())
				add("still", parent)
				waiter := w.acquiring(parent, mutex(s))
				add("after", w.Context())
				child, cancel := context.WithCancel(contexts[len(contexts)-1])
				defer cancel()
				contexts = append(contexts, child)
				time.Sleep(time.Second) // all keys are watched
				deadline := s.Deadline()
				p.still.Store(true)
				loss(w, holds)
				if name == "the deadline" {
					time.Sleep(time.Until(deadline))
				}
				synctest.Wait()
				for i, end := range ends {
					assert.True(w, isClosed(end), "hold %d", i)
				}
				for i, ctx := range contexts {
					assert.True(w, isClosed(ctx.Done()), "context %d", i)
				}
				called := p.at == "Value" || p.at == "Done" || p.at == "AfterFunc"
				assert.Equal(w, called, p.calls.Load() > 0, "whether it stood still")
				p.goOn()
				w.f.Heal()
				if name == "the deadline" {
					assert.ErrorIs(w, waiter.failed(), lease.ErrExpired)
					return
				}
				w.release(other)
				w.release(waiter.won())
			})
		})
	}
}

// A caller's context that stands still while the connection of its request is given up holds up no
// renewal and no other request.
// rule: T6
func TestARequestWhoseContextStandsStillHoldsUpNoOthers(t *testing.T) {
	for _, members := range []int{1, 3} {
		t.Run(fmt.Sprint(members, " members"), func(t *testing.T) {
			stillParents(t, members, func(w *fixture, p *stillParent, parent context.Context) {
				c := w.client(pawl.Config{})
				s, err := c.Session(w.Context())
				require.NoError(w, err)
				h := w.acquire(s)
				w.swallow()
				read := make(chan struct{})
				go func() {
					defer close(read)
					_, _ = c.KV().Txn(parent, kv.Txn{Then: []kv.Op{kv.Put("other", nil)}})
				}()
				synctest.Wait() // it is sent
				p.still.Store(true)
				time.Sleep(time.Minute)
				w.held(h)
				w.everyCallReturns(c, s, h)
				w.release(h)
				p.goOn()
				<-read
			})
		})
	}
}

// A caller's context that stands still while the client's session is made for it holds up nobody else who
// needs that session, and not the client's Close.
// rule: T6
func TestACallWhoseContextStandsStillHoldsUpNoOtherUserOfTheClientsSession(t *testing.T) {
	stillParents(t, 1, func(w *fixture, p *stillParent, parent context.Context) {
		c := w.client(pawl.Config{})
		p.still.Store(true)
		returned := make(chan struct{})
		go func() {
			defer close(returned)
			_, _ = c.Session(parent)
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(w.Context(), 2*time.Second)
		defer cancel()
		_, err := c.Session(ctx)
		assert.NoError(w, err)
		time.AfterFunc(time.Minute, p.goOn)
		assert.LessOrEqual(w, w.took(func() { _ = c.Close() }), 3*time.Second)
		p.goOn()
		<-returned
	})
}

// A caller's context that stands still while a session is made for it holds up the client's Close for no longer
// than pending removals do.
// rule: T6
func TestACloseWaitsForACallWhoseContextStandsStillTwoSecondsAtMost(t *testing.T) {
	stillParents(t, 1, func(w *fixture, p *stillParent, parent context.Context) {
		c := w.client(pawl.Config{})
		p.still.Store(true)
		returned := make(chan struct{})
		go func() {
			defer close(returned)
			s, err := c.NewSession(parent, lease.Options{})
			if err == nil {
				err = s.Err()
			}
			assert.ErrorIs(w, err, lease.ErrClosed)
		}()
		synctest.Wait()
		time.AfterFunc(time.Minute, p.goOn)
		assert.LessOrEqual(w, w.took(func() { _ = c.Close() }), 3*time.Second)
		p.goOn()
		<-returned
	})
}

// A caller's context that stands still while a Lazy client is connecting for it holds up no other call.
// rule: T6
func TestAFirstCallWhoseContextStandsStillHoldsUpNoOtherCall(t *testing.T) {
	stillParents(t, 1, func(w *fixture, p *stillParent, parent context.Context) {
		c := w.client(pawl.Config{Lazy: true})
		w.f.BlackHole()
		call := func(ctx context.Context) error {
			_, err := c.KV().Txn(ctx, kv.Txn{Then: []kv.Op{kv.Put("key", nil)}})
			return err
		}
		returned := make(chan struct{})
		go func() {
			defer close(returned)
			_ = call(parent)
		}()
		synctest.Wait()
		p.still.Store(true)
		time.Sleep(8 * time.Second) // its probes have failed
		w.f.Heal()
		ctx, cancel := context.WithTimeout(w.Context(), 8*time.Second)
		defer cancel()
		assert.NoError(w, call(ctx))
		p.goOn()
		<-returned
	})
}

// The client's session is granted apart from its caller's context, and says how that ended nevertheless.
func TestTheGrantOfTheClientsSessionEndsWithItsCallersContext(t *testing.T) {
	inBubbleOf(t, 1, func(w *fixture) {
		c := w.client(pawl.Config{})
		w.f.BlackHole()
		because := errors.New("enough")
		ctx, cancel := context.WithTimeoutCause(w.Context(), time.Second, because)
		defer cancel()
		var err error
		assert.LessOrEqual(w, w.took(func() { _, err = c.Session(ctx) }), 1100*time.Millisecond)
		assert.ErrorIs(w, err, context.DeadlineExceeded)
		assert.ErrorIs(w, err, because)
		assert.NotErrorIs(w, err, context.Canceled)
		assert.NotContains(w, err.Error(), "canceled")
		w.f.Heal()
	})
}
