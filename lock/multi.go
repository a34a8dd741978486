package lock

import (
	"context"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/queue"
	"github.com/pawl-locks/pawl/observe"
)

// MaxNames is the greatest number of names that a Multi can have: half as many exclusive names as
// fit into one transaction at etcd's default limit, and three quarters as many shared ones.
const MaxNames = queue.MaxNames

// A Want is a name and the mode in which to acquire it: see Exclusive and Shared.
type Want struct{ want queue.Want }

// Exclusive returns name in exclusive mode, as for Mutex.Acquire.
func Exclusive(name string) Want { return Want{queue.Want{Name: name, Mode: observe.Exclusive}} }

// Shared returns name in shared mode, as for Mutex.AcquireShared.
func Shared(name string) Want { return Want{queue.Want{Name: name, Mode: observe.Shared}} }

// A Multi is several names that are locked at once, all or none. It never changes state: each
// acquisition is a separate Held, and any number of goroutines may use one Multi. It must not be
// copied.
//
// One request enqueues for all the names, so acquisitions of several names never wait for one
// another in a circle, whatever their names and order. There is no deadlock, provided that nobody
// waits for one acquisition while holding another. The price is that an acquisition that waits for
// one name also blocks those behind it on its other names. Keep sets small.
type Multi struct{ target }

// NewMulti returns a Multi of 1 to 32 names; it does no I/O. s is as for New. All names must be on
// one cluster: with pawl.Clusters, s is that of ForAll. The first call reports invalid arguments:
// those that New reports; no names, too many, or the same twice; a name that pawl.Clusters has on
// another cluster than s; EtcdLayout with a shared name, or with a name that lies within another.
func NewMulti(s pawl.Sessions, opts Options, wants ...Want) *Multi {
	m := &Multi{target{sessions: s, opts: opts}}
	for _, w := range wants {
		m.wants = append(m.wants, w.want)
	}
	return m
}

// all returns m's target, or nil for a nil Multi.
func (m *Multi) all() *target {
	if m == nil {
		return nil
	}
	return &m.target
}

// Names returns the names, in the order in which they were given.
func (m *Multi) Names() []string { return m.all().names() }

// Acquire waits until all the names are held, as Mutex.Acquire waits for one. After an error
// none of them is held.
func (m *Multi) Acquire(ctx context.Context) (*Held, error) {
	return m.all().acquire(ctx, "acquire", false)
}

// TryAcquire is Acquire without waiting: it acquires all names or none. If a name is not free,
// it fails with ErrBusy at once and writes nothing; the error's text contains the first such
// name.
func (m *Multi) TryAcquire(ctx context.Context) (*Held, error) {
	return m.all().acquire(ctx, "try to acquire", true)
}

// Do acquires all the names, runs fn and releases them: see Held.Do. fn is not called unless
// they are held.
func (m *Multi) Do(ctx context.Context, fn func(ctx context.Context, h *Held) error) error {
	return m.all().do(ctx, "do", m.Acquire, fn)
}

// Resume returns the Held of keys that this session's predecessor held, if the session was made
// with lease.Options.Resume. all and t are the predecessor's Held.Keys and Held.Token, and the
// names are the same, in the same order. The modes follow from the keys. The error matches ErrLost
// if one of the keys no longer exists. Keys that were not acquired together, or together with
// others, are refused and stay as they are.
func (m *Multi) Resume(ctx context.Context, all []string, t fencing.Token) (*Held, error) {
	return m.all().resume(ctx, all, t)
}
