package lock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/inside"
	"github.com/pawl-locks/pawl/internal/queue"
	"github.com/pawl-locks/pawl/kv"
)

// A Held is one acquisition of a lock. It is used once; its methods may be
// called by several goroutines at once.
type Held struct {
	c       *queue.Acquisition
	session *pawl.Session
}

// acquisition is what h holds; for a nil or zero Held, one that has ended.
func (h *Held) acquisition() *queue.Acquisition {
	if h == nil || h.c == nil {
		return queue.None
	}
	return h.c
}

// Name is the lock's name, as it was given to New.
func (h *Held) Name() string { return h.acquisition().Name() }

// Key is the lock's key in etcd, whole, namespace included. It stays the same
// after the end.
func (h *Held) Key() string { return h.acquisition().Key() }

// Token is the fencing token: the create revision of Key. It stays the same
// after the end.
func (h *Held) Token() fencing.Token { return h.acquisition().Token() }

// Guard is "Key still has Token as its create revision", for a transaction of
// the caller's own through kv.Client.Txn. It stays the same after the end, when
// such a transaction is refused with kv.ErrFenced.
func (h *Held) Guard() kv.Guard { return h.acquisition().Guard() }

// Shared reports whether it was acquired in shared mode. It stays the same after the end.
func (h *Held) Shared() bool { return h.acquisition().Shared() }

// Session is the session that the lock is held on, and lost with. It stays the same
// after the end; nil for a nil or zero Held.
func (h *Held) Session() *pawl.Session {
	if h == nil {
		return nil
	}
	return h.session
}

// Context has the values of Acquire's ctx, not its end, and carries the token:
// fencing.FromContext, or fencing.FromSharedContext for a shared one. It is cancelled at loss, with the error that Err returns
// as its cause, and not at Release.
func (h *Held) Context() context.Context { return h.acquisition().Context() }

// Done is closed when the lock is no longer held, Release included; Err says
// which. It only notifies: Err is what decides.
func (h *Held) Done() <-chan struct{} { return h.acquisition().Done() }

// Err is nil while the lock is held. After a loss it matches ErrLost and exactly
// one cause; after Release it matches ErrReleased. It compares the clock with
// the deadline at the call, so it is right at the first call after a pause. It
// does no I/O. It does not block, but for at most 50 ms in the moment in which
// the key is known to be gone and not yet whether its lease went with it.
func (h *Held) Err() error { return h.acquisition().Err() }

// Deadline is until when the lock is held unless its session is renewed, or, where that
// is earlier, until Options.MaxHold ends it: for comparison with time.Now, and computed
// at the call. A kept one is wrong after
// a suspend. It is the zero Time once it has ended.
func (h *Held) Deadline() time.Time { return h.acquisition().Deadline() }

// Confirm reads from the cluster, linearizably, whether the lock is still held. nil:
// it was, at some moment during the call. An error that matches ErrLost: it is
// not. Another error: no answer came, and nothing has changed.
func (h *Held) Confirm(ctx context.Context) error {
	return h.wrap("confirm", ctx, h.acquisition().Confirm)
}

// Do runs fn while the lock is held, and then releases it. fn's context is a
// child of ctx that carries the token; it is cancelled at loss, with the cause.
// Do waits for fn to return before it releases: an fn that ignores its context
// keeps the lock, on purpose. fn is not called unless the lock is held, nor when
// ctx has ended.
//
// nil means that fn returned nil, and that the lock was held until then.
// Otherwise errors.Is finds fn's error, the release's, or both. A panic in fn
// releases and goes on up. Do returns within 100 ms of fn's return and ctx's
// end, whichever is later.
func (h *Held) Do(ctx context.Context, fn func(ctx context.Context) error) error {
	return h.wrap("do", ctx, func(ctx context.Context) error {
		if fn == nil {
			return errors.Join(errors.New("nil function"), h.acquisition().Release(ctx, ErrReleased))
		}
		return h.acquisition().Do(ctx, ErrReleased, fn)
	})
}

// Release gives the lock back. From the call on it is not held here. nil: it was
// held until now. An error that matches ErrLost: it was not. One that matches
// kv.ErrUnknown: that is not confirmed, and goes on in the background; called again,
// Release tries again, and once it is decided gives the same answer. With a ctx
// that is done, it still sends, and waits for at most 100 ms: `defer
// h.Release(ctx)` never strands a lock. With Options.AtLeast it may return before the
// others can have the lock.
func (h *Held) Release(ctx context.Context) error {
	return h.wrap("release", ctx, func(ctx context.Context) error { return h.acquisition().Release(ctx, ErrReleased) })
}

// wrap runs one call and says in its error which it was.
func (h *Held) wrap(op string, ctx context.Context, call func(context.Context) error) error {
	if ctx == nil {
		return fmt.Errorf("lock: %s %q: nil context", op, h.acquisition().Name())
	}
	if err := call(ctx); err != nil {
		return fmt.Errorf("lock: %s %q: %w", op, h.acquisition().Name(), err)
	}
	return nil
}

func init() {
	inside.KeeperOfHeld = func(v any) inside.Keeper {
		return v.(interface{ acquisition() *queue.Acquisition }).acquisition()
	}
}
