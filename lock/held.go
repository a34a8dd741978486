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

// A Held is one acquisition of a lock. It is used once; its methods are safe for concurrent
// use.
type Held struct {
	a       *queue.Acquisition
	session *pawl.Session
}

// acquisition is h's acquisition; for a nil or zero Held, one that has ended.
func (h *Held) acquisition() *queue.Acquisition {
	if h == nil || h.a == nil {
		return queue.None
	}
	return h.a
}

// Name is the lock's name, as it was given to New.
func (h *Held) Name() string { return h.acquisition().Name() }

// Key is the lock's key in etcd, whole, namespace included. It stays the same
// after the end.
func (h *Held) Key() string { return h.acquisition().Key() }

// Token is the fencing token: the create revision of Key. It stays the same
// after the end.
func (h *Held) Token() fencing.Token { return h.acquisition().Token() }

// Guard is the comparison "Key still has Token as its create revision", for a caller's own
// transaction through kv.Client.Txn. It stays the same after the end; such a transaction is
// then refused with kv.ErrFenced.
func (h *Held) Guard() kv.Guard { return h.acquisition().Guard() }

// Shared reports whether it was acquired in shared mode. It stays the same after the end.
func (h *Held) Shared() bool { return h.acquisition().Shared() }

// Session is the session on which the lock is held, and with which it is lost. It stays the
// same after the end; nil for a nil or zero Held.
func (h *Held) Session() *pawl.Session {
	if h == nil {
		return nil
	}
	return h.session
}

// Context has the values of Acquire's ctx, but does not end with it, and carries the token:
// fencing.FromContext, or fencing.FromSharedContext for a shared one. It is cancelled at loss,
// with the error that Err returns as its cause, but not at Release.
func (h *Held) Context() context.Context { return h.acquisition().Context() }

// Done is closed when the lock is no longer held, also by Release; Err returns why. It only
// notifies; Err decides.
func (h *Held) Done() <-chan struct{} { return h.acquisition().Done() }

// Err is nil while the lock is held. After a loss it matches ErrLost and exactly one cause;
// after Release it matches ErrReleased. It compares the clock with the deadline at the call, so
// it is right at the first call after a pause. It does no I/O and does not block.
func (h *Held) Err() error { return h.acquisition().Err() }

// Deadline is until when the lock is held unless its session is renewed, or the end of
// Options.MaxHold if that is earlier. It is computed at the call, for comparison with time.Now.
// A stored one is wrong after a suspend. It is the zero Time once the lock is no longer held.
func (h *Held) Deadline() time.Time { return h.acquisition().Deadline() }

// Confirm reads from the cluster, linearizably, whether the lock is still held. nil: it was, at
// some moment during the call. An error that matches ErrLost: it is not. Another error: no
// answer came, and nothing has changed.
func (h *Held) Confirm(ctx context.Context) error {
	return h.wrap("confirm", ctx, h.acquisition().Confirm)
}

// Do runs fn while the lock is held, and then releases it. fn's context is a child of ctx that
// carries the token; it is cancelled at loss, with the cause. Do waits for fn to return before
// it releases: an fn that ignores its context keeps the lock, on purpose. fn is not called if
// the lock is not held or ctx has ended.
//
// nil means that fn returned nil, and that the lock was held until then. Otherwise errors.Is
// finds fn's error, the release's, or both. If fn panics, Do releases and the panic continues.
// Do returns within 100 ms of fn's return and ctx's end, whichever is later.
func (h *Held) Do(ctx context.Context, fn func(ctx context.Context) error) error {
	return h.wrap("do", ctx, func(ctx context.Context) error {
		if fn == nil {
			return errors.Join(errors.New("nil function"), h.acquisition().Release(ctx, ErrReleased))
		}
		return h.acquisition().Do(ctx, ErrReleased, fn)
	})
}

// Release releases the lock; from the call on it is not held here. nil: it was held until now.
// An error that matches ErrLost: it was not. One that matches kv.ErrUnknown: the release is not
// confirmed, and continues in the background; another call tries again, and once it is decided
// every call returns the same. If ctx is done, Release still sends, and waits for at most 100
// ms: `defer h.Release(ctx)` never leaves a lock behind. With Options.AtLeast it may return
// before others can acquire the lock.
func (h *Held) Release(ctx context.Context) error {
	return h.wrap("release", ctx, func(ctx context.Context) error { return h.acquisition().Release(ctx, ErrReleased) })
}

// wrap runs call and names it in its error.
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
