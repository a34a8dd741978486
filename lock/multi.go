package lock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/inside"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/queue"
)

// MaxNames is how many names a Multi has at most: half as many exclusive names as fit into one
// transaction at etcd's default limit, and three quarters as many shared ones.
const MaxNames = 32

// A Want is a name and the mode in which to acquire it: see Exclusive and Shared.
type Want struct {
	name   string
	shared bool
}

// Exclusive is name in exclusive mode, as for Mutex.Acquire.
func Exclusive(name string) Want { return Want{name: name} }

// Shared is name in shared mode, as for Mutex.AcquireShared.
func Shared(name string) Want { return Want{name: name, shared: true} }

// A Multi is several names that are locked at once, all or none. It never changes state: each
// acquisition is a HeldMulti of its own, and any number of goroutines may use one Multi.
//
// One request enqueues for all the names, so that acquisitions of several names never wait for
// one another in a circle, whatever their names and in whatever order. There is no deadlock,
// provided that nobody waits for one acquisition while holding another. The price is that an
// acquisition which waits for one name also blocks those behind it on its other names. Keep
// sets small.
type Multi struct {
	sessions pawl.Sessions
	opts     Options
	wants    []Want
}

// NewMulti makes a Multi of 1 to 32 names; it does no I/O. s is as for New. All names must be
// on one cluster: with pawl.Clusters, s is that of ForAll. The first call reports invalid
// arguments: those that New reports; no names, too many, or the same twice; a name that
// pawl.Clusters has on another cluster than s; a Delay with more than one name, or with a shared
// one; EtcdLayout with a shared name, or with a name that lies within another.
func NewMulti(s pawl.Sessions, opts Options, wants ...Want) *Multi {
	return &Multi{sessions: s, opts: opts, wants: slices.Clone(wants)}
}

// Names are the names, in the order in which they were given.
func (m *Multi) Names() []string {
	if m == nil {
		return nil
	}
	return namesOf(m.wants)
}

func namesOf(wants []Want) []string {
	names := make([]string, len(wants))
	for i, w := range wants {
		names[i] = w.name
	}
	return names
}

// Acquire waits until all the names are held, as Mutex.Acquire waits for one. After an error
// none of them is held.
func (m *Multi) Acquire(ctx context.Context) (*HeldMulti, error) {
	return m.acquire(ctx, "acquire", queue.Request{})
}

// TryAcquire is Acquire without waiting: it acquires all names or none. If a name is not free,
// it fails with ErrBusy at once and writes nothing; the error's text contains the first such
// name.
func (m *Multi) TryAcquire(ctx context.Context) (*HeldMulti, error) {
	return m.acquire(ctx, "try to acquire", queue.Request{Try: true})
}

func (m *Multi) acquire(ctx context.Context, op string, r queue.Request) (*HeldMulti, error) {
	session, queues, err := m.resolve(ctx)
	if err == nil {
		s := inside.SessionOf(session)
		r.Delay, r.Limits = m.opts.Delay, m.limits()
		if len(queues) > 1 {
			r.Value = s.MultiLabel(m.opts.Owner, m.Names(), m.opts.EtcdLayout)
		} else {
			r.Value, r.Handoffs = (&Mutex{opts: m.opts}).label(s), !m.opts.EtcdLayout && !m.wants[0].shared
		}
		var a *queue.Acquisition
		if a, err = queue.AcquireAll(ctx, s, r, queues[0], queues[1:]...); err == nil {
			return &HeldMulti{a, session, m.Names()}, nil
		}
	}
	return nil, fmt.Errorf("lock: %s %s: %w", op, quoteAll(m.Names()), err)
}

// Do acquires all the names, runs fn and releases them: see HeldMulti.Do. fn is not called
// unless they are held.
func (m *Multi) Do(ctx context.Context, fn func(ctx context.Context, h *HeldMulti) error) error {
	if fn == nil {
		return fmt.Errorf("lock: do %s: nil function", quoteAll(m.Names()))
	}
	h, err := m.Acquire(ctx)
	if err != nil {
		return err
	}
	return h.Do(ctx, func(ctx context.Context) error { return fn(ctx, h) })
}

// Resume makes the HeldMulti of keys that this session's predecessor held, if the session was
// made with lease.Options.Resume. all and t are the predecessor's HeldMulti.Keys and
// HeldMulti.Token, and the names are the same, in the same order. The modes follow from the
// keys. The error matches ErrLost if one of the keys no longer exists. Keys that were not
// acquired together, or together with others, are refused and stay as they are.
func (m *Multi) Resume(ctx context.Context, all []string, t fencing.Token) (*HeldMulti, error) {
	session, queues, err := m.resolve(ctx)
	if err == nil {
		var a *queue.Acquisition
		if a, err = queue.ResumeAll(ctx, inside.SessionOf(session), all, t, m.limits(), queues[0], queues[1:]...); err == nil {
			return &HeldMulti{a, session, m.Names()}, nil
		}
	}
	return nil, fmt.Errorf("lock: resume %s: %w", quoteAll(m.Names()), err)
}

func (m *Multi) limits() queue.Limits {
	return queue.Limits{Max: m.opts.MaxHold, AtLeast: m.opts.AtLeast}
}

// resolve checks NewMulti's arguments and ctx, and returns the current session.
func (m *Multi) resolve(ctx context.Context) (*pawl.Session, []queue.Queue, error) {
	if err := m.check(ctx); err != nil {
		return nil, nil, err
	}
	session, namespace, err := current(ctx, m.sessions)
	if err != nil {
		return nil, nil, err
	}
	queues := make([]queue.Queue, len(m.wants))
	for i, want := range m.wants {
		if queues[i], err = queue.New(namespace, want.name, m.opts.EtcdLayout); err != nil {
			return nil, nil, err
		}
		queues[i].Shared = want.shared
	}
	return session, queues, nil
}

// check reports what is wrong before anything is sent to the cluster.
func (m *Multi) check(ctx context.Context) error {
	switch {
	case m == nil:
		return errors.New("nil Multi")
	case ctx == nil:
		return errors.New("nil context")
	case m.sessions == nil:
		return errors.New("nil session")
	case len(m.wants) == 0:
		return errors.New("no names")
	case len(m.wants) > MaxNames:
		return fmt.Errorf("%d names, want at most %d", len(m.wants), MaxNames)
	case m.opts.Delay < 0:
		return fmt.Errorf("Options.Delay is %v, want 0 or more", m.opts.Delay)
	case len(m.opts.Owner) > maxOwner:
		return fmt.Errorf("Options.Owner has %d bytes, want at most %d", len(m.opts.Owner), maxOwner)
	case m.opts.Delay > 0 && len(m.wants) > 1:
		return errors.New("several names cannot be combined with Options.Delay")
	}
	if err := m.limits().Check(); err != nil {
		return err
	}
	for i, want := range m.wants {
		if err := m.checkWant(i, want); err != nil {
			return err
		}
	}
	names := m.Names()
	if err := inside.Carry(m.sessions, names[0], names[1:]); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return cluster.EndOf(ctx)
	}
	return nil
}

// checkWant reports what is wrong with the i-th want, or with it and an earlier one.
func (m *Multi) checkWant(i int, want Want) error {
	if err := keys.CheckName(want.name, m.opts.EtcdLayout); err != nil {
		return fmt.Errorf("name %d of %d: %w", i+1, len(m.wants), err)
	}
	if err := (&Mutex{opts: m.opts}).checkShared(want.shared); err != nil {
		return err
	}
	for _, other := range m.wants[:i] {
		switch {
		case other.name == want.name:
			return fmt.Errorf("the name %q is given twice", want.name)
		case m.opts.EtcdLayout && (strings.HasPrefix(want.name+"/", other.name+"/") || strings.HasPrefix(other.name+"/", want.name+"/")):
			return fmt.Errorf("of %q and %q one lies within the other in etcd's layout", other.name, want.name)
		}
	}
	return nil
}

// quoteAll is names for an error's text.
func quoteAll(names []string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = keys.Quote(name)
	}
	return strings.Join(quoted, ", ")
}
