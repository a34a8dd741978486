package lock

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/inside"
	"github.com/pawl-locks/pawl/internal/inspect"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/queue"
)

// MaxLimit is how many slots a Semaphore has at most.
const MaxLimit = keys.MaxLimit

// A Semaphore is a name that a limited number of acquisitions hold at once, each in a slot of
// its own, numbered from 0. It never changes state: each acquisition is a Permit, and any
// number of goroutines may use one Semaphore.
//
// Acquisitions are served in order: they queue at a turnstile, and the first one takes the
// lowest free slot. The price of the order is that one which is first and crashes keeps free
// slots from the others for one TTL, and that filling n slots takes about 2n round trips.
//
// If Semaphores of one name have different limits, as while a new limit is rolled out, each
// acquisition uses the least of its own limit and those of all holders: there are never more
// holders than any one of them allows.
type Semaphore struct {
	sessions pawl.Sessions
	name     string
	limit    int
	opts     Options
}

// NewSemaphore makes a Semaphore with limit slots, 1 to MaxLimit; it does no I/O. s is as for
// New. The first call reports invalid arguments: those that New reports, another limit, a name
// of more than 1008 bytes, and a Delay or EtcdLayout, which a semaphore does not support.
func NewSemaphore(s pawl.Sessions, name string, limit int, opts Options) *Semaphore {
	return &Semaphore{sessions: s, name: name, limit: limit, opts: opts}
}

// Name is the semaphore's name, as it was given.
func (m *Semaphore) Name() string {
	if m == nil {
		return ""
	}
	return m.name
}

// Limit is the number of slots, as it was given.
func (m *Semaphore) Limit() int {
	if m == nil {
		return 0
	}
	return m.limit
}

// Acquire waits until a slot is held, as Mutex.Acquire waits for a lock.
func (m *Semaphore) Acquire(ctx context.Context) (*Permit, error) {
	return m.acquire(ctx, "acquire a permit of", queue.Request{})
}

// TryAcquire is Acquire without waiting: if no slot is free or others wait for one, it fails
// with ErrBusy at once. Then it has written nothing, unless another took the last free slot
// during the call.
func (m *Semaphore) TryAcquire(ctx context.Context) (*Permit, error) {
	return m.acquire(ctx, "try to acquire a permit of", queue.Request{Try: true})
}

func (m *Semaphore) acquire(ctx context.Context, op string, r queue.Request) (*Permit, error) {
	session, q, err := m.resolve(ctx)
	if err == nil {
		s := inside.SessionOf(session)
		r.Limits, r.Value = m.limits(), (&Mutex{opts: m.opts}).label(s)
		var a *queue.Acquisition
		if a, err = queue.Acquire(ctx, s, q, r); err == nil {
			return &Permit{Held{a, session}}, nil
		}
	}
	return nil, fmt.Errorf("lock: %s %s: %w", op, keys.Quote(m.Name()), err)
}

// Do acquires a slot, runs fn and releases it: see Permit.Do. fn is not called unless a slot
// is held.
func (m *Semaphore) Do(ctx context.Context, fn func(ctx context.Context, p *Permit) error) error {
	if fn == nil {
		return fmt.Errorf("lock: do with a permit of %s: nil function", keys.Quote(m.Name()))
	}
	p, err := m.Acquire(ctx)
	if err != nil {
		return err
	}
	return p.Do(ctx, func(ctx context.Context) error { return fn(ctx, p) })
}

// Resume makes the Permit of a key that this session's predecessor held, if the session was
// made with lease.Options.Resume. key and t are the predecessor's Permit.Key and Permit.Token.
// The slot follows from the key, whatever the limit is now. The error matches ErrLost if the
// key no longer exists.
func (m *Semaphore) Resume(ctx context.Context, key string, t fencing.Token) (*Permit, error) {
	session, q, err := m.resolve(ctx)
	if err == nil {
		var a *queue.Acquisition
		if a, err = queue.Resume(ctx, inside.SessionOf(session), q, key, t, m.limits()); err == nil {
			return &Permit{Held{a, session}}, nil
		}
	}
	return nil, fmt.Errorf("lock: resume a permit of %s: %w", keys.Quote(m.Name()), err)
}

// Queue reads who holds a slot and who waits for one, at one moment during the call, as
// Mutex.Queue does. Entries with a Slot of 0 or more hold it; the others wait, in order.
func (m *Semaphore) Queue(ctx context.Context) (Queue, error) {
	err := m.check(ctx)
	if err == nil {
		var q Queue
		if q, err = inspect.QueueOf(ctx, m.sessions, inspect.Scope{Name: m.name, Only: inspect.KindSemaphore}); err == nil {
			return q, nil
		}
	}
	return nil, fmt.Errorf("lock: queue of semaphore %s: %w", keys.Quote(m.Name()), err)
}

func (m *Semaphore) limits() queue.Limits {
	return queue.Limits{Max: m.opts.MaxHold, AtLeast: m.opts.AtLeast}
}

// resolve checks NewSemaphore's arguments and ctx, and returns the current session.
func (m *Semaphore) resolve(ctx context.Context) (*pawl.Session, queue.Queue, error) {
	if err := m.check(ctx); err != nil {
		return nil, queue.Queue{}, err
	}
	session, namespace, err := current(ctx, m.sessions)
	if err != nil {
		return nil, queue.Queue{}, err
	}
	q, err := queue.NewSemaphore(namespace, m.name, m.limit)
	return session, q, err
}

// check reports what is wrong before anything is sent to the cluster.
func (m *Semaphore) check(ctx context.Context) error {
	switch {
	case m == nil:
		return errors.New("nil Semaphore")
	case ctx == nil:
		return errors.New("nil context")
	case m.sessions == nil:
		return errors.New("nil session")
	case m.opts.EtcdLayout:
		return errors.New("a semaphore cannot be combined with Options.EtcdLayout: etcd's own clients know none")
	case m.opts.Delay != 0:
		return errors.New("a semaphore cannot be combined with Options.Delay")
	case len(m.opts.Owner) > maxOwner:
		return fmt.Errorf("Options.Owner has %d bytes, want at most %d", len(m.opts.Owner), maxOwner)
	}
	if err := m.limits().Check(); err != nil {
		return err
	}
	if err := queue.CheckSemaphore(m.name, m.limit); err != nil {
		return err
	}
	if err := inside.Carry(m.sessions, m.name, nil); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return cluster.EndOf(ctx)
	}
	return nil
}
