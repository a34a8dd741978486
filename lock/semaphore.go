package lock

import (
	"context"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/inspect"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/queue"
	"github.com/pawl-locks/pawl/observe"
)

// MaxLimit is the greatest number of slots that a Semaphore can have.
const MaxLimit = keys.MaxLimit

// A Semaphore is a name that a limited number of acquisitions hold at once, each in a different
// slot. Slots are numbered from 0. A Semaphore never changes state: each acquisition is a separate
// Held, and any number of goroutines may use one Semaphore. It must not be copied. The loss of one hold
// does not affect other slots.
//
// Acquisitions are served in order: they queue at a turnstile, and the first one takes the lowest
// free slot. This order has a price. One that is first and crashes keeps free slots from the others
// for one TTL, and filling n slots takes about 2n round trips.
//
// If Semaphores of one name have different limits, as while a new limit is rolled out, each
// acquisition uses the least of its own limit and those of all holders. So there are never more
// holders than any one of them allows.
type Semaphore struct{ target }

// NewSemaphore returns a Semaphore with limit slots, 1 to MaxLimit; it does no I/O. s is as for
// New. The first call reports invalid arguments: those that New reports, another limit, a name of
// more than 1008 bytes, and EtcdLayout, which a semaphore does not support.
func NewSemaphore(s pawl.Sessions, name string, limit int, opts Options) *Semaphore {
	return &Semaphore{target{sessions: s, opts: opts, wants: []queue.Want{{Name: name, Mode: observe.Semaphore, Limit: limit}}}}
}

// all returns m's target, or nil for a nil Semaphore.
func (m *Semaphore) all() *target {
	if m == nil {
		return nil
	}
	return &m.target
}

// Name returns the semaphore's name, as it was given.
func (m *Semaphore) Name() string { return m.all().name() }

// Limit returns the number of slots, as it was given.
func (m *Semaphore) Limit() int {
	if m == nil || len(m.wants) == 0 {
		return 0
	}
	return m.wants[0].Limit
}

// Acquire waits until a slot is held, as Mutex.Acquire waits for a lock.
func (m *Semaphore) Acquire(ctx context.Context) (*Held, error) {
	return m.all().acquire(ctx, "acquire a slot of", false)
}

// TryAcquire is Acquire without waiting: if no slot is free or others wait for one, it fails
// with ErrBusy at once. Then it has written nothing, unless another took the last free slot
// during the call.
func (m *Semaphore) TryAcquire(ctx context.Context) (*Held, error) {
	return m.all().acquire(ctx, "try to acquire a slot of", true)
}

// Do acquires a slot, runs fn and releases it: see Held.Do. fn is not called unless a slot is
// held.
func (m *Semaphore) Do(ctx context.Context, fn func(ctx context.Context, h *Held) error) error {
	return m.all().do(ctx, "do with a slot of", m.Acquire, fn)
}

// Resume returns the Held of a key that this session's predecessor held, if the session was made
// with lease.Options.Resume. key and t are the predecessor's Held.Key and Held.Token. The slot
// follows from the key, whatever the limit is now. The error matches ErrLost if the key no longer
// exists.
func (m *Semaphore) Resume(ctx context.Context, key string, t fencing.Token) (*Held, error) {
	return m.all().resume(ctx, []string{key}, t)
}

// Queue reads who holds a slot and who waits for one, at one moment during the call, as
// Mutex.Queue does. Entries with a Slot of 0 or more hold it; the others wait, in order.
func (m *Semaphore) Queue(ctx context.Context) (Queue, error) {
	return m.all().queue(ctx, inspect.KindSemaphore)
}
