package lock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/hooks"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/queue"
	"github.com/pawl-locks/pawl/kv"
)

// A Held is one acquisition of a lock, of several names, or of a slot of a semaphore. It is used
// once; its methods are safe for concurrent use. What they return about what was acquired stays the
// same after the end.
//
// Several names are held as a whole: if one of them is lost, all of them are. The other names stay
// taken until Release, or until the function of Do has returned, because that may still work with
// them. Without either, they stay taken for one TTL.
type Held struct {
	a       *queue.Acquisition
	session *pawl.Session
}

// acquisition returns h's acquisition; for a nil or zero Held, one that has ended.
func (h *Held) acquisition() *queue.Acquisition {
	if h == nil || h.a == nil {
		return queue.None
	}
	return h.a
}

// Name returns the name as it was given; of several, the first.
func (h *Held) Name() string { return h.acquisition().Name() }

// Names returns the names, in the order in which they were given.
func (h *Held) Names() []string {
	if h == nil || h.a == nil {
		return nil
	}
	return h.a.Names()
}

// Key returns the whole key in etcd, namespace included; of several, the first.
func (h *Held) Key() string { return h.acquisition().Key() }

// Keys returns the keys in etcd, one for each of Names.
func (h *Held) Keys() []string { return h.acquisition().AllKeys() }

// Token returns the fencing token, which is the create revision of Key, and of all Keys. It is
// strictly greater than that of every earlier exclusive holder of each name; that of an exclusive
// holder is also greater than that of every earlier shared one. That of a semaphore is greater than
// those of all earlier holders of the same slot, and unrelated to those of other slots, so
// storage keeps a register for each slot (see Context).
func (h *Held) Token() fencing.Token { return h.acquisition().Token() }

// Guard returns the comparison "Key still has Token as its create revision", for a transaction of
// the caller through kv.Client.Txn. After the end such a transaction is refused with kv.ErrFenced.
// Several names have the zero Guard, which is refused too (see Guards).
func (h *Held) Guard() kv.Guard { return h.acquisition().Guard() }

// Guards returns the comparisons for each of Keys. A transaction that concerns only some of the
// names needs only their guards.
func (h *Held) Guards() []kv.Guard { return h.acquisition().Guards() }

// Mode returns the mode in which it is held: ModeExclusive, ModeShared or ModeSlot. Several names
// have ModeShared if all of them are shared.
func (h *Held) Mode() Mode { return Mode(h.acquisition().Mode()) }

// Shared reports whether Mode is ModeShared.
func (h *Held) Shared() bool { return h.Mode() == ModeShared }

// Slot returns the number of a semaphore's slot, from 0 to the limit less one, or -1 if it is not a
// semaphore's. No two holders of a semaphore have the same number, so it can serve as the number of
// a worker, a shard or a device.
func (h *Held) Slot() int { return h.acquisition().Slot() }

// Session returns the session on which it is held, and with which it is lost. It is nil for a nil
// or zero Held.
func (h *Held) Session() *pawl.Session {
	if h == nil {
		return nil
	}
	return h.session
}

// Context returns a context that has the values of Acquire's ctx, but does not end with it. It
// carries the token: fencing.FromContext finds it, or fencing.FromSharedContext for a shared one.
// It is cancelled at loss, with the error that Err returns as its cause, but not at Release.
//
// The resource of a slot's token consists of the semaphore's name and the slot, and differs from
// every lock's name. Storage that checks it lets at most as many writers through as there are
// slots, one for each slot. The Context of several names carries no token, and hides an outer one,
// because a token belongs to one name (see ContextFor).
func (h *Held) Context() context.Context { return h.acquisition().Context() }

// ContextFor returns a child of ctx that carries the token for one of Names, in the mode in which
// that is held. For any other name the child carries no token.
func (h *Held) ContextFor(ctx context.Context, name string) context.Context {
	return h.acquisition().ContextFor(ctx, name)
}

// Bind returns a child of ctx that also ends with the hold: at loss and at Release, with the error that
// Err returns as its cause. It has the values of ctx, and carries the token as Context does. It is for
// work that another call, a request or a goroutine, does under the lock. After the end it is cancelled
// already. The CancelFunc ends it earlier, and should be called when the work is done. The context's end
// only notifies; Err decides.
func (h *Held) Bind(ctx context.Context) (context.Context, context.CancelFunc) {
	return h.acquisition().Bind(ctx)
}

// Done returns a channel that is closed when it is no longer held, also by Release; Err returns
// why. The channel only notifies; Err decides.
func (h *Held) Done() <-chan struct{} { return h.acquisition().Done() }

// Err returns nil while it is held (all the names, if there are several). After a loss the error
// matches ErrLost and exactly one cause, and of several names its text contains the one that was
// lost. After Release it matches ErrReleased. Err compares the clock with the deadline at the call,
// so it is right at the first call after a pause. It does no I/O and does not block.
func (h *Held) Err() error { return h.acquisition().Err() }

// Progress reports that the work has got something done. It returns what Err returns; once that is
// not nil, Progress changes nothing. It makes no request, does not block, and may be called often,
// by several goroutines. Without Options.Stall it is Err. The holds of a set have one.
func (h *Held) Progress() error { return h.acquisition().Progress() }

// Deadline returns until when it is held unless its session is renewed, or its end by
// Options.MaxHold, or by Options.Stall without another Progress, if that is earlier. It is computed at the call, for comparison with time.Now. A
// stored one is wrong after a suspend. It is the zero Time once it is no longer held.
func (h *Held) Deadline() time.Time { return h.acquisition().Deadline() }

// Wanted returns a channel that is closed once somebody waits behind it. For a shared one that is
// an exclusive waiter, for several names a waiter for any of them, and in etcd's layout one for a
// nested name too. It is a hint: it ends nothing, and the channel stays closed if nobody waits any
// more, which Mutex.Queue shows. A TryAcquire does not wait. The channel is nil, and so never
// ready, for a slot of a semaphore, and after the end unless Wanted was called before. The first
// call begins the watches that it needs.
func (h *Held) Wanted() <-chan struct{} { return h.acquisition().Wanted() }

// Confirm reads from the cluster, linearizably, whether it is still held. It returns nil if it was
// held at some moment during the call, and an error that matches ErrLost if it is not. Another
// error means that no answer came and nothing has changed.
func (h *Held) Confirm(ctx context.Context) error {
	return h.wrap("confirm", ctx, h.acquisition().Confirm)
}

// Do runs fn while it is held, and then releases it. fn's context is a child of ctx that carries
// the token as Context does. It is cancelled at loss, with the cause. Do waits for fn to return
// before it releases: an fn that ignores its context keeps the lock, on purpose. fn is not called
// if the lock is not held or ctx has ended.
//
// Do returns nil if fn returned nil and the lock was held until then. Otherwise errors.Is finds
// fn's error, the release's, or both. If fn panics, Do releases and the panic continues. Do returns
// within 100 ms of fn's return and ctx's end, whichever is later.
func (h *Held) Do(ctx context.Context, fn func(ctx context.Context) error) error {
	return h.do(ctx, fn, fn)
}

// do is Do of fn, which calls what.
func (h *Held) do(ctx context.Context, what any, fn func(ctx context.Context) error) error {
	return h.wrap("do", ctx, func(ctx context.Context) error {
		if fn == nil {
			return errors.Join(errors.New("nil function"), h.acquisition().Release(ctx, ErrReleased))
		}
		return h.acquisition().DoNaming(ctx, ErrReleased, what, fn)
	})
}

// Release releases it, several names in one request. Once it is called, it is not held here.
// Release returns nil if it was held until then, and an error that matches ErrLost if it was not.
// After the loss of one of several names it releases the others, in the background, and returns
// what Err does.
//
// An error that matches kv.ErrUnknown means that the release is not confirmed and continues in the
// background. Another call tries again, and once it is decided every call returns the same. If ctx
// is done, Release still sends, and waits for at most 100 ms: `defer h.Release(ctx)` never leaves a
// lock behind. With Options.AtLeast it may return before others can acquire the lock.
func (h *Held) Release(ctx context.Context) error {
	return h.wrap("release", ctx, func(ctx context.Context) error { return h.acquisition().Release(ctx, ErrReleased) })
}

// wrap runs call and names it in its error.
func (h *Held) wrap(op string, ctx context.Context, call func(context.Context) error) error {
	err := errNilContext
	if ctx != nil {
		err = call(ctx)
	}
	if err != nil {
		return fmt.Errorf("lock: %s %s: %w", op, keys.Quote(h.acquisition().Names()...), err)
	}
	return nil
}

// String returns the names, the keys, the token, a semaphore's slot, and whether it is held at the
// call, for people to read. Like Err, it compares the clock and does no I/O.
func (h *Held) String() string { return h.acquisition().Describe("lock") }

// LogValue returns what String does, as a group of attributes: slot, name and key, or names and
// keys; token, held, and the cause once it is not held.
func (h *Held) LogValue() slog.Value { return h.acquisition().LogValue() }

func init() {
	hooks.KeeperOfHeld = func(v any) hooks.Keeper { return v.(*Held).acquisition() }
	hooks.HeldOf = func(acquisition, session any) any {
		return &Held{acquisition.(*queue.Acquisition), session.(*pawl.Session)}
	}
}
