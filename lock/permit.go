package lock

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/handle"
	"github.com/pawl-locks/pawl/internal/queue"
	"github.com/pawl-locks/pawl/kv"
)

// A Permit is one held slot of a Semaphore. It is used once; its methods are safe for
// concurrent use. The loss of a Permit does not affect other slots.
type Permit struct{ held Held }

// acquisition is p's acquisition; for a nil or zero Permit, one that has ended.
func (p *Permit) acquisition() *queue.Acquisition { return p.of().acquisition() }

// of is p as a Held.
func (p *Permit) of() *Held {
	if p == nil {
		return nil
	}
	return &p.held
}

// Slot is the number of the slot, from 0 to the semaphore's limit less one. No two held Permits
// have the same number, so it can serve as the number of a worker, a shard or a device. It
// stays the same after the end; -1 for a nil or zero Permit.
func (p *Permit) Slot() int {
	if slot, ok := p.acquisition().Slot(); ok {
		return slot
	}
	return -1
}

// Name is the semaphore's name, as it was given to NewSemaphore.
func (p *Permit) Name() string { return p.of().Name() }

// Key is the slot's key in etcd, whole, namespace included. It stays the same after the end.
func (p *Permit) Key() string { return p.of().Key() }

// Token is the fencing token: the create revision of Key. It is strictly greater than those of
// all earlier holders of the same slot, and unrelated to those of other slots, so that storage
// keeps a register for each slot: see Context. It stays the same after the end.
func (p *Permit) Token() fencing.Token { return p.of().Token() }

// Guard is "Key still has Token as its create revision": see Held.Guard.
func (p *Permit) Guard() kv.Guard { return p.of().Guard() }

// Session is the session on which the slot is held, and with which it is lost: see
// Held.Session.
func (p *Permit) Session() *pawl.Session { return p.of().Session() }

// Context has the values of Acquire's ctx, but does not end with it, and carries the token, for
// fencing.FromContext. Its resource consists of the name and the slot, and differs from every
// lock's name. Storage that checks it lets at most as many writers through as there are slots,
// one for each slot. It is cancelled at loss, with the error that Err returns as its cause, but
// not at Release.
func (p *Permit) Context() context.Context { return p.of().Context() }

// Done is closed when the slot is no longer held, also by Release: see Held.Done.
func (p *Permit) Done() <-chan struct{} { return p.of().Done() }

// Err is nil while the slot is held: see Held.Err.
func (p *Permit) Err() error { return p.of().Err() }

// Deadline is until when the slot is held unless its session is renewed: see Held.Deadline.
func (p *Permit) Deadline() time.Time { return p.of().Deadline() }

// Confirm reads from the cluster, linearizably, whether the slot is still held: see
// Held.Confirm.
func (p *Permit) Confirm(ctx context.Context) error { return p.of().Confirm(ctx) }

// Do runs fn while the slot is held, and then releases it: see Held.Do. fn's context carries
// the token, as Context does.
func (p *Permit) Do(ctx context.Context, fn func(ctx context.Context) error) error {
	return p.of().Do(ctx, fn)
}

// Release releases the slot: see Held.Release.
func (p *Permit) Release(ctx context.Context) error { return p.of().Release(ctx) }

// String returns the name, the key, which shows the slot, the token, and whether it is held at
// the call, for people to read. Like Err, it compares the clock and does no I/O.
func (p *Permit) String() string {
	return handle.String(fmt.Sprintf("slot %d of semaphore", p.Slot()), p)
}

// LogValue returns what String does, as a group of attributes: slot, name, key, token, held,
// and the cause once it is not held.
func (p *Permit) LogValue() slog.Value {
	return slog.GroupValue(append([]slog.Attr{slog.Int("slot", p.Slot())}, handle.LogValue(p).Group()...)...)
}
