package queue

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/notify"
)

// callers are the callers of an acquisition that have to be notified of its end. They are made when somebody
// first asks for something, and so are the context and the channel.
//
// Invariant: the end is stored before notify looks for callers, and locks mu. So notify reaches everything that
// was added under mu before, and everything that is added later finds the end.
type callers struct {
	notified atomic.Pointer[ending] // the end that notify has reported to all of them

	mu     sync.Mutex
	ctx    context.Context
	cancel context.CancelCauseFunc
	done   chan struct{}
	works  []*work            // calls of Do whose functions have not returned
	bound  map[*work]struct{} // contexts of Bind that have not ended
}

// anyCallers returns the callers of the acquisition, which it makes if there are none.
func (a *Acquisition) anyCallers() *callers {
	if a.callers.Load() == nil {
		a.callers.CompareAndSwap(nil, &callers{})
	}
	return a.callers.Load()
}

// work is a call of Do under way, or a context of Bind.
type work struct {
	cancel context.CancelCauseFunc
	what   any // the function of Do, as its caller gave it
}

// child returns a child of ctx that carries the token, and the work that cancels it. That calls no
// method of ctx, which may be of a caller's type and stand still (rule T6): a context that is cancelled
// tells its parent, and this one's is of package context. leave, which the caller must call, cancels it
// and tells ctx.
func (a *Acquisition) child(ctx context.Context) (child context.Context, w *work, leave context.CancelFunc) {
	between, leave := context.WithCancel(ctx)
	child, cancel := context.WithCancelCause(a.withToken(between))
	return child, &work{cancel: cancel}, leave
}

// Done returns a channel that is closed once it is no longer held, release included.
func (a *Acquisition) Done() <-chan struct{} {
	_ = a.Err() // a deadline that has passed closes done now
	c := a.anyCallers()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done == nil {
		c.done = make(chan struct{})
		if e := a.ended.Load(); e != nil {
			close(c.done)
		}
	}
	return c.done
}

// Context returns a context with the values of Acquire's context and the token. It is cancelled,
// with the cause, at loss, but not at release. It is made at the first call, and has no parent that
// could cancel it.
func (a *Acquisition) Context() context.Context {
	_ = a.Err()
	c := a.anyCallers()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx == nil {
		c.ctx, c.cancel = context.WithCancelCause(a.withToken(context.WithoutCancel(a.parent)))
		if e := a.ended.Load(); e != nil && !e.released {
			c.cancel(e.err)
		}
	}
	return c.ctx
}

// Bind returns a child of ctx that carries the token, and is cancelled when it is no longer held, with
// the error of Err as its cause, release included. The function that it returns cancels it earlier.
func (a *Acquisition) Bind(ctx context.Context) (context.Context, context.CancelFunc) {
	child, w, leave := a.child(ctx)
	if err := a.bind(w); err != nil {
		w.cancel(err)
		leave()
		return child, func() {}
	}
	end := func() {
		a.anyCallers().unbind(w)
		leave()
	}
	stop := context.AfterFunc(child, end)
	return child, func() {
		if stop() {
			end()
		}
	}
}

// bind records w, to be cancelled at the end. It fails if the acquisition has ended.
func (a *Acquisition) bind(w *work) error {
	c := a.anyCallers()
	err := a.Err()
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := a.ended.Load(); e != nil { // notify may have passed
		return e.err
	}
	if err != nil {
		return err
	}
	if c.bound == nil {
		c.bound = map[*work]struct{}{}
	}
	c.bound[w] = struct{}{}
	return nil
}

func (c *callers) unbind(w *work) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.bound, w)
}

// Do runs fn and then releases, so that Err returns as. fn's context is a child of ctx, carries the
// token, and is cancelled with the cause at loss. Do does not call fn if it is not held or ctx has
// ended. It returns nil if fn returned nil and it was held until then. If fn panics, Do releases and
// the panic continues.
func (a *Acquisition) Do(ctx context.Context, as error, fn func(ctx context.Context) error) (err error) {
	return a.DoNaming(ctx, as, fn, fn)
}

// DoNaming is Do of an fn that calls what, a function of the program, which the log names.
func (a *Acquisition) DoNaming(ctx context.Context, as error, what any, fn func(ctx context.Context) error) (err error) {
	child, w, leave := a.child(ctx)
	w.what = what
	defer leave()
	if others, err := a.begin(w); err != nil {
		if others == 0 { // rule ML6: no function uses the other names
			a.releaseRest()
		}
		return err
	}
	defer func() { // also if fn panics
		a.anyCallers().returned(w)
		err = both(err, a.Release(ctx, as))
	}()
	if end := cluster.EndOf(ctx); end != nil {
		return end
	}
	return fn(child)
}

// begin records w, to be cancelled at loss. It fails if the acquisition has ended; others is then
// the number of calls of Do under way.
func (a *Acquisition) begin(w *work) (others int, err error) {
	c := a.anyCallers()
	for {
		err := a.Err()
		c.mu.Lock()
		others, alive := len(c.works), a.ended.Load() == nil
		if err == nil && alive {
			c.works = append(c.works, w)
		}
		c.mu.Unlock()
		if err != nil || alive {
			return others, err
		}
	}
}

// returned removes w, whose function has returned.
func (c *callers) returned(w *work) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.works = slices.DeleteFunc(c.works, func(other *work) bool { return other == w })
}

// running names the functions of Do that are still running.
func (a *Acquisition) running() (names []string) {
	c := a.callers.Load()
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range c.works {
		names = append(names, notify.FuncName(w.what))
	}
	return names
}

// working reports whether a function of Do is still running.
func (a *Acquisition) working() bool {
	c := a.callers.Load()
	if c == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.works) > 0
}

// notify reports e, the end of the acquisition, to its callers. Once it has returned, they know, even if another
// goroutine is notifying them.
func (a *Acquisition) notify(e *ending) {
	if c := a.callers.Load(); c != nil && c.notified.Load() != e {
		c.tell(e)
	}
}

// tell cancels the contexts and then closes the channel. Several may do so at once.
func (c *callers) tell(e *ending) {
	c.mu.Lock()
	cancel, works, bound := c.cancel, slices.Clone(c.works), slices.Collect(maps.Keys(c.bound))
	c.mu.Unlock()
	for _, w := range bound {
		w.cancel(e.err)
	}
	if !e.released {
		if cancel != nil {
			cancel(e.err)
		}
		for _, w := range works {
			w.cancel(e.err)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bound = nil; c.done != nil && !isClosed(c.done) {
		close(c.done)
	}
	c.notified.Store(e)
}

func isClosed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}
