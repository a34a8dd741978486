package lock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/queue"
	"github.com/pawl-locks/pawl/kv"
)

// A HeldMulti is one acquisition of several names. It is used once; its methods are safe for
// concurrent use.
//
// It is held as a whole: if one of its names is lost, all of it is. The other names stay taken
// until Release, or until the function of Do has returned, because that may still work with
// them; without either, they stay taken for one TTL.
type HeldMulti struct {
	a       *queue.Acquisition
	session *pawl.Session
	names   []string
}

// acquisition is h's acquisition; for a nil or zero HeldMulti, one that has ended.
func (h *HeldMulti) acquisition() *queue.Acquisition {
	if h == nil || h.a == nil {
		return queue.None
	}
	return h.a
}

// Names are the names, in the order in which they were given.
func (h *HeldMulti) Names() []string {
	if h == nil {
		return nil
	}
	return slices.Clone(h.names)
}

// Keys are the keys in etcd, whole, one for each of Names. They stay the same after the end.
func (h *HeldMulti) Keys() []string { return h.acquisition().AllKeys() }

// Token is the fencing token, the same for all the names: the create revision of all Keys. For
// each name it is strictly greater than the previous holder's.
func (h *HeldMulti) Token() fencing.Token { return h.acquisition().Token() }

// Guards are the comparisons "this key still has Token as its create revision" for each of
// Keys, for a caller's own transaction. A transaction that concerns only some of the names
// needs only their guards.
func (h *HeldMulti) Guards() []kv.Guard { return h.acquisition().Guards() }

// Session is the session on which the names are held, and with which they are lost.
func (h *HeldMulti) Session() *pawl.Session {
	if h == nil {
		return nil
	}
	return h.session
}

// Context has the values of Acquire's ctx, but does not end with it. It is cancelled at loss,
// with the error that Err returns as its cause, but not at Release. It carries no token, and
// hides an outer one, because a token belongs to one name: see ContextFor.
func (h *HeldMulti) Context() context.Context { return withoutToken(h.acquisition().Context()) }

// ContextFor returns a child of ctx that carries the token for one of the names, as a shared
// token if the name is held in shared mode. For any other name the child carries no token.
func (h *HeldMulti) ContextFor(ctx context.Context, name string) context.Context {
	return h.acquisition().ContextFor(ctx, name)
}

func withoutToken(ctx context.Context) context.Context { return fencing.NewContext(ctx, "", 0) }

// Done is closed when the names are no longer held, also by Release; Err returns why.
func (h *HeldMulti) Done() <-chan struct{} { return h.acquisition().Done() }

// Err is nil while all the names are held. After a loss it matches ErrLost and exactly one
// cause, and its text contains the name; after Release it matches ErrReleased. It compares the
// clock with the deadline at the call, as Held.Err does.
func (h *HeldMulti) Err() error { return h.acquisition().Err() }

// Deadline is as Held.Deadline.
func (h *HeldMulti) Deadline() time.Time { return h.acquisition().Deadline() }

// Confirm reads from the cluster, linearizably, whether all the names are still held: see
// Held.Confirm.
func (h *HeldMulti) Confirm(ctx context.Context) error {
	return h.wrap("confirm", ctx, h.acquisition().Confirm)
}

// Do runs fn while the names are held, and then releases them: see Held.Do. fn's context
// carries no token, and hides an outer one: see ContextFor.
func (h *HeldMulti) Do(ctx context.Context, fn func(ctx context.Context) error) error {
	return h.wrap("do", ctx, func(ctx context.Context) error {
		if fn == nil {
			return errors.Join(errors.New("nil function"), h.acquisition().Release(ctx, ErrReleased))
		}
		return h.acquisition().Do(ctx, ErrReleased, func(ctx context.Context) error { return fn(withoutToken(ctx)) })
	})
}

// Release releases all the names, in one request: see Held.Release. nil: all of them were held
// until now. After the loss of one it releases the others, in the background, and returns what
// Err does.
func (h *HeldMulti) Release(ctx context.Context) error {
	return h.wrap("release", ctx, func(ctx context.Context) error { return h.acquisition().Release(ctx, ErrReleased) })
}

// wrap runs call and names it in its error.
func (h *HeldMulti) wrap(op string, ctx context.Context, call func(context.Context) error) error {
	if ctx == nil {
		return fmt.Errorf("lock: %s %s: nil context", op, quoteAll(h.Names()))
	}
	if err := call(ctx); err != nil {
		return fmt.Errorf("lock: %s %s: %w", op, quoteAll(h.Names()), err)
	}
	return nil
}

// String returns the names, the keys, the token, and whether they are held at the call, for
// people to read. Like Err, it compares the clock and does no I/O.
func (h *HeldMulti) String() string {
	state := "held"
	if err := h.Err(); err != nil {
		state = err.Error()
	}
	return fmt.Sprintf("locks %s (keys %q, token %d): %s", quoteAll(h.Names()), h.Keys(), h.Token(), state)
}

// LogValue returns what String does, as a group of attributes: names, keys, token, held, and
// the cause once they are not held.
func (h *HeldMulti) LogValue() slog.Value {
	attrs := []slog.Attr{slog.Any("names", h.Names()), slog.Any("keys", h.Keys()), slog.Int64("token", int64(h.Token()))}
	err := h.Err()
	if attrs = append(attrs, slog.Bool("held", err == nil)); err != nil {
		attrs = append(attrs, slog.String("cause", err.Error()))
	}
	return slog.GroupValue(attrs...)
}
