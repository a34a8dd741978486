package lock

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/hooks"
	"github.com/pawl-locks/pawl/internal/inspect"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/queue"
	"github.com/pawl-locks/pawl/observe"
)

var errNilContext = errors.New("nil context")

// A target is what a Mutex, a Multi and a Semaphore have in common: what to acquire, with which
// sessions and how. Its methods are safe on a nil target.
type target struct {
	sessions pawl.Sessions
	opts     Options
	wants    []queue.Want
	resolved atomic.Pointer[resolved]
}

// resolved are a target's queues in a namespace, kept from call to call.
type resolved struct {
	namespace string
	queues    []queue.Queue
}

// name returns the name, of several the first, or "" for a nil or zero target.
func (t *target) name() string {
	if t == nil || len(t.wants) == 0 {
		return ""
	}
	return t.wants[0].Name
}

// more returns the names but the first.
func (t *target) more() (all []string) {
	for _, w := range t.wants[1:] {
		all = append(all, w.Name)
	}
	return all
}

// names returns the names, in the order in which they were given.
func (t *target) names() []string {
	if t == nil || len(t.wants) == 0 {
		return nil
	}
	return append([]string{t.wants[0].Name}, t.more()...)
}

// options returns the options for package queue.
func (t *target) options() queue.Options {
	return queue.Options{
		EtcdLayout: t.opts.EtcdLayout, Owner: t.opts.Owner,
		Limits: queue.Limits{Max: t.opts.MaxHold, AtLeast: t.opts.AtLeast, Stall: t.opts.Stall},
	}
}

// check returns what is wrong before anything is sent to the cluster.
func (t *target) check(ctx context.Context) error {
	switch {
	case t == nil:
		return errors.New("nil Mutex, Multi or Semaphore")
	case ctx == nil:
		return errNilContext
	case t.sessions == nil:
		return errors.New("nil session")
	}
	if t.resolved.Load() == nil { // otherwise an earlier call has checked them
		if err := t.options().Check(t.wants); err != nil {
			return err
		}
	}
	if err := hooks.Carry(t.sessions, t.wants[0].Name, t.more()); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return cluster.EndOf(ctx)
	}
	return nil
}

// resolve checks the arguments, and returns the session of this call and the queues in it.
func (t *target) resolve(ctx context.Context) (*pawl.Session, []queue.Queue, error) {
	if err := t.check(ctx); err != nil {
		return nil, nil, err
	}
	session, err := t.sessions.Session(ctx)
	if err != nil {
		return nil, nil, err
	}
	s := hooks.SessionOf(session)
	if s == nil {
		return nil, nil, errors.New("nil session")
	}
	r := t.resolved.Load()
	if namespace := s.Host().Namespace; r == nil || r.namespace != namespace {
		r = &resolved{namespace: namespace}
		if r.queues, err = t.options().Queues(namespace, t.wants); err != nil {
			return nil, nil, err
		}
		t.resolved.Store(r)
	}
	return session, r.queues, nil
}

// acquire acquires the names. op names the call in an error.
func (t *target) acquire(ctx context.Context, op string, try bool) (*Held, error) {
	session, queues, err := t.resolve(ctx)
	if err == nil {
		s := hooks.SessionOf(session)
		r := queue.Request{
			Try: try, Limits: t.options().Limits,
			Value:    keys.WithStall(s.LabelOf(t.opts.Owner, t.opts.EtcdLayout, t.wants[0].Name, t.more()), t.opts.Stall),
			Handoffs: len(t.wants) == 1 && t.wants[0].Mode == observe.Exclusive && !t.opts.EtcdLayout,
		}
		var a *queue.Acquisition
		if a, err = queue.Acquire(ctx, s, r, queues...); err == nil {
			return &Held{a, session}, nil
		}
	}
	return nil, t.failed(op, err)
}

// resume returns the Held of keys that the session's predecessor held.
func (t *target) resume(ctx context.Context, own []string, token fencing.Token) (*Held, error) {
	session, queues, err := t.resolve(ctx)
	if err == nil {
		var a *queue.Acquisition
		if a, err = queue.Resume(ctx, hooks.SessionOf(session), own, token, t.options().Limits, queues...); err == nil {
			return &Held{a, session}, nil
		}
	}
	return nil, t.failed("resume", err)
}

// do acquires, runs fn and releases.
func (t *target) do(ctx context.Context, op string, acquire func(context.Context) (*Held, error), fn func(ctx context.Context, h *Held) error) error {
	if fn == nil {
		return t.failed(op, errors.New("nil function"))
	}
	h, err := acquire(ctx)
	if err != nil {
		return err
	}
	return h.do(ctx, fn, func(ctx context.Context) error { return fn(ctx, h) })
}

// queue lists who holds the name, and who waits for it.
func (t *target) queue(ctx context.Context, kind string) (Queue, error) {
	err := t.check(ctx)
	if err == nil {
		var q Queue
		if q, err = inspect.QueueOf(ctx, t.sessions, inspect.Scope{Name: t.wants[0].Name, EtcdLayout: t.opts.EtcdLayout, Only: kind}); err == nil {
			return q, nil
		}
	}
	return nil, t.failed("queue", err)
}

// failed adds to err the call that failed and its names.
func (t *target) failed(op string, err error) error {
	return fmt.Errorf("lock: %s %s: %w", op, keys.Quote(t.names()...), err)
}
