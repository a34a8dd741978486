package service

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/cmd/pawld/internal/registry"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/lock"
)

// process is one that exits when the test says so.
type process struct{ exit, closed chan struct{} }

func newProcess() *process { return &process{make(chan struct{}), make(chan struct{}, 2)} }

func (p *process) Wait() bool {
	select {
	case <-p.exit:
		return true
	case <-p.closed:
		return false
	}
}

func (p *process) Close() { p.closed <- struct{}{} }

// of is the request of a process with a number, which asks for a binding.
func (p *process) of(r Request, pid int) Request {
	r.PID, r.Bind = pid, func() (Process, error) { return p, nil }
	return r
}

func (d *daemon) countBindings() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.bindings)
}

// What a process had is free as soon as it exits, whatever was promised to it, but for the
// lock-delay: it was not released (V8).
func TestABoundSessionIsGivenUpWhenItsProcessExits(t *testing.T) {
	for _, delay := range []time.Duration{0, 7 * time.Second} {
		inBubble(t, func(w *fixture) {
			d := w.daemonWith(delay)
			p := newProcess()
			a, err := d.Acquire(w.Context(), p.of(d.request("a", time.Second), 7), "name", 0, exclusive("name"), 10)
			require.NoError(w, err)
			require.Equal(w, registry.Held, a.State)
			other := w.daemon().client
			time.Sleep(time.Second)
			begin := time.Now()
			close(p.exit)
			h, err := lock.New(other, "name", lock.Options{}).Acquire(w.Context())
			require.NoError(w, err)
			assert.GreaterOrEqual(w, time.Since(begin), delay)
			assert.Less(w, time.Since(begin), delay+500*time.Millisecond)
			require.NoError(w, h.Release(w.Context()))
			_, err = d.Acquire(w.Context(), p.of(d.request("a", 0), 7), "late", 0, exclusive("late"), 10)
			assert.ErrorContains(w, err, "its process exited")
			assert.Zero(w, d.countBindings())
		})
	}
}

func TestABindingEndsWithItsSession(t *testing.T) {
	for name, end := range map[string]func(d *daemon, p *process){
		"released":  func(d *daemon, p *process) { _, _ = d.Release(d.w.Context(), p.of(d.request("a", 0), 7), nil) },
		"forgotten": func(*daemon, *process) { time.Sleep(h + 2*time.Minute) },
		"restarted": func(d *daemon, _ *process) { d.left() },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *fixture) {
				d := w.daemon()
				p := newProcess()
				_, err := d.Acquire(w.Context(), p.of(d.request("a", time.Second), 7), "1", 0, exclusive("name"), 10)
				require.NoError(w, err)
				synctest.Wait()
				require.Equal(w, 1, d.countBindings())
				end(d, p)
				synctest.Wait()
				assert.Zero(w, d.countBindings())
				assert.NotEmpty(w, p.closed, "it is closed")
			})
		})
	}
}

// V4: another process may believe in what was promised before.
func TestWhatWasPromisedBeforeABindingIsKept(t *testing.T) {
	inBubble(t, func(w *fixture) {
		d := w.daemon()
		key := d.hold("a", "1", "name").Keys[0]
		begin := time.Now()
		validity := d.one("a").Valid
		p := newProcess()
		_, err := d.Acquire(w.Context(), p.of(d.request("a", time.Second), 7), "2", 0, exclusive("other"), 10)
		require.NoError(w, err)
		close(p.exit)
		time.Sleep(validity - 1 - time.Since(begin))
		synctest.Wait()
		assert.NotNil(w, w.f.Get(key))
		time.Sleep(h)
		assert.Nil(w, w.f.Get(key))
	})
}

func TestASessionIsBoundToTheFirstProcessThatAsks(t *testing.T) {
	inBubble(t, func(w *fixture) {
		d := w.daemon()
		d.hold("a", "1", "name")
		refused := d.request("a", 0)
		refused.Bind = func() (Process, error) { return nil, errors.New("not seen") }
		_, err := d.Acquire(w.Context(), refused, "1", 0, exclusive("name"), 10)
		require.ErrorContains(w, err, "not seen")
		p := newProcess()
		_, err = d.Acquire(w.Context(), p.of(d.request("a", 0), 7), "1", 0, exclusive("name"), 10)
		require.NoError(w, err, "later than its first lock")
		for _, pid := range []int{0, 8} {
			r := newProcess().of(d.request("a", 0), pid)
			_, err := d.Acquire(w.Context(), r, "1", 0, exclusive("name"), 10)
			assert.ErrorContains(w, err, "bound to another process")
			_, err = d.Renew(w.Context(), r, nil)
			assert.ErrorContains(w, err, "bound to another process")
			_, err = d.Release(w.Context(), r, nil)
			assert.ErrorContains(w, err, "bound to another process")
			_, err = d.Confirm(w.Context(), r, "1")
			assert.ErrorContains(w, err, "bound to another process")
		}
		all, err := d.Renew(w.Context(), p.of(d.request("a", 0), 7), nil)
		require.NoError(w, err)
		assert.Len(w, all, 1)
	})
}

// V4: what is promised to a process would end with the exit of the one that bound the session meanwhile.
func TestWhatWaitsWhileAnotherProcessBindsIsPromisedNothing(t *testing.T) {
	const refused = "bound to another process"
	// by is a request of process 7, which does not ask for a binding.
	by := func(d *daemon, wait time.Duration) Request {
		r := d.request("a", wait)
		r.PID = 7
		return r
	}
	for name, c := range map[string]struct {
		slow func(w *fixture) func() // what is slow while the call waits, until it is called
		call func(d *daemon) error
	}{
		"Renew": {nil, func(d *daemon) error {
			_, err := d.Renew(d.w.Context(), by(d, time.Minute), nil)
			return err
		}},
		"Acquire": {nil, func(d *daemon) error {
			_, err := d.Acquire(d.w.Context(), by(d, time.Minute), "waits", 0, exclusive("taken"), 10)
			return err
		}},
		"Confirm": {aboutIs("name"), func(d *daemon) error {
			_, err := d.Confirm(d.w.Context(), by(d, 0), "1")
			return err
		}},
		"Proclaim": {aboutIs("term"), func(d *daemon) error {
			_, err := d.Proclaim(d.w.Context(), by(d, 0), "term", []byte("v"), anyName)
			return err
		}},
		"Release": {aboutIs("name"), func(d *daemon) error {
			_, err := d.Release(d.w.Context(), by(d, 0), nil)
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *fixture) {
				d := w.daemon()
				d.hold("b", "1", "taken")
				d.hold("a", "1", "name")
				require.Equal(w, registry.Held, d.acquire("a", "term", time.Second, Want{Names: []string{"term"}, Modes: []Mode{Election}}).State)
				lift := func() {}
				if c.slow != nil {
					lift = c.slow(w)
				}
				answered := make(chan error, 1)
				go func() { answered <- c.call(d) }()
				synctest.Wait()
				p := newProcess()
				_, err := d.Acquire(w.Context(), p.of(d.request("a", 0), 8), "2", 0, exclusive("other"), 10)
				require.NoError(w, err)
				lift()
				d.release("b", "1")
				assert.ErrorContains(w, <-answered, refused)
				assert.Equal(w, 1, d.countBindings())
			})
		})
	}
}

// V4: the end of a call's caller, and not the binding, ends its wait.
func TestARenewWhoseCallerHasGoneIsPromisedNothingWhileAnotherProcessIsBound(t *testing.T) {
	inBubble(t, func(w *fixture) {
		d := w.daemon()
		d.hold("a", "1", "name")
		ctx, cancel := context.WithCancel(w.Context())
		r := d.request("a", time.Minute)
		r.PID = 7
		answered := make(chan error, 1)
		go func() {
			_, err := d.Renew(ctx, r, nil)
			answered <- err
		}()
		synctest.Wait()
		d.mu.Lock()
		d.bindings["a"] = &binding{pid: 8, Process: newProcess()} // which wakes nobody
		d.mu.Unlock()
		cancel()
		assert.ErrorContains(w, <-answered, "bound to another process")
	})
}

// aboutIs has etcd answer nothing about a name until the result is called.
func aboutIs(name string) func(w *fixture) (lift func()) {
	return func(w *fixture) func() {
		return w.f.Inject(etcdfake.Rule{Method: "Txn", Match: about(name), Lose: true}).Lift
	}
}
