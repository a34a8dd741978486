package elect

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/gate"
	"github.com/pawl-locks/pawl/internal/hooks"
	"github.com/pawl-locks/pawl/internal/queue"
	"github.com/pawl-locks/pawl/kv"
)

// A Term is one period of leading, from a won campaign to its end. It is used once; its methods
// are safe for concurrent use. A nil or zero Term has ended, and was never led.
type Term struct {
	a           *queue.Acquisition
	session     *pawl.Session
	proclaiming gate.Gate // one Proclaim at a time
}

func newTerm(a *queue.Acquisition, session *pawl.Session) *Term {
	return &Term{a: a, session: session, proclaiming: gate.New(1)}
}

// acquisition returns t's acquisition; for a nil or zero Term, one that has ended.
func (t *Term) acquisition() *queue.Acquisition {
	if t == nil || t.a == nil {
		return queue.None
	}
	return t.a
}

// Name returns the election's name, as it was given to New.
func (t *Term) Name() string { return t.acquisition().Name() }

// Key returns the candidate's whole key in etcd, namespace included. It stays the same after the
// end.
func (t *Term) Key() string { return t.acquisition().Key() }

// Token returns the fencing token, which is the create revision of Key, and greater than that of
// every term of the name before. It stays the same after the end.
func (t *Term) Token() fencing.Token { return t.acquisition().Token() }

// Guard returns the comparison "Key still has Token as its create revision", for a transaction of
// the caller through kv.Client.Txn. It stays the same after the end; such a transaction is then
// refused with kv.ErrFenced.
func (t *Term) Guard() kv.Guard { return t.acquisition().Guard() }

// Session returns the session of the term, with which the term is lost. It stays the same after the
// end, and is nil for a nil or zero Term.
func (t *Term) Session() *pawl.Session {
	if t == nil {
		return nil
	}
	return t.session
}

// Context returns a context that has the values of Campaign's ctx, but does not end with it. It
// carries the token: fencing.FromContext finds it. It is cancelled at loss, with the error that Err
// returns as its cause, but not at Resign.
func (t *Term) Context() context.Context { return t.acquisition().Context() }

// Bind returns a child of ctx that also ends with the term: at loss and at Resign, with the error that
// Err returns as its cause. See lock.Held.Bind.
func (t *Term) Bind(ctx context.Context) (context.Context, context.CancelFunc) {
	return t.acquisition().Bind(ctx)
}

// Done returns a channel that is closed when the term has ended, also by Resign; Err returns why.
// The channel only notifies; Err decides.
func (t *Term) Done() <-chan struct{} { return t.acquisition().Done() }

// Err returns nil while the term lasts. After a loss the error matches ErrLost and exactly one
// cause; after Resign it matches ErrResigned. Err compares the clock with the deadline at the call,
// so it is right at the first call after a pause. It does no I/O and does not block.
func (t *Term) Err() error { return t.acquisition().Err() }

// Progress reports that lead has got something done. It returns what Err returns; once that is not
// nil, Progress changes nothing. It makes no request, does not block, and may be called often, by
// several goroutines. Without a Stall it is Err.
func (t *Term) Progress() error { return t.acquisition().Progress() }

// Deadline returns until when the term lasts unless its session is renewed, or its end by
// its Stall without another Progress if that is earlier. It is computed at the
// call, for comparison with time.Now. A stored one is wrong after a suspend. It is the zero Time
// once the term has ended.
func (t *Term) Deadline() time.Time { return t.acquisition().Deadline() }

// Confirm reads from the cluster, linearizably, whether the term still lasts. It returns nil if it
// did at some moment during the call, and an error that matches ErrLost if it does not. Another
// error means that no answer came and nothing has changed.
func (t *Term) Confirm(ctx context.Context) error {
	return t.call("confirm", ctx, t.acquisition().Confirm)
}

// errNoTerm is the error of Proclaim on a nil Term, as of a program that has not been elected.
var errNoTerm = fmt.Errorf("this process does not lead, so there is nothing to change: its campaign has failed, or has not been won yet (%w)", queue.None.Err())

// Proclaim changes the value that observers see; the key, the token and the position stay. Calls
// are made one at a time, in any order. One that waits for another returns when ctx ends.
//
// Proclaim returns nil if the value was written while the term lasted, and an error that matches
// ErrLost or ErrResigned if the term has ended. An error that matches kv.ErrUnknown means that the
// value may have been written, or may be later. The next Proclaim settles that before it writes its
// value, so a delayed copy of an older value never replaces a newer one. Another error means that
// it was not written. Unless the error says that the term has ended, Proclaim can be called again.
//
// A value that begins as the values of locks' keys do is refused, as by Campaign. The value is
// copied.
func (t *Term) Proclaim(ctx context.Context, value []byte) error {
	return t.call("proclaim", ctx, func(ctx context.Context) error {
		if t.acquisition() == queue.None {
			return errNoTerm
		}
		if err := checkValue(value); err != nil {
			return err
		}
		proclaimed := t.a.Proclaiming()
		err := t.proclaim(ctx, value)
		proclaimed(err) // after the gate was left, because an observer may call Proclaim
		return err
	})
}

// proclaim writes value when no other Proclaim is under way.
func (t *Term) proclaim(ctx context.Context, value []byte) error {
	if !t.proclaiming.Enter(ctx) {
		return context.Cause(ctx)
	}
	defer t.proclaiming.Leave()
	return t.a.Rewrite(ctx, value)
}

// Resign ends the term, so that the next candidate leads. Once it is called, this one does not
// lead. Resign returns nil if it led until then, and an error that matches ErrLost if it did not. An
// error that matches kv.ErrUnknown means that the resignation is not confirmed and continues in the
// background. Another call tries again, and once it is decided every call returns the same. If ctx
// is done, Resign still sends, and waits for at most 100 ms: `defer t.Resign(ctx)` never leaves an
// election without a leader.
func (t *Term) Resign(ctx context.Context) error {
	return t.call("resign", ctx, func(ctx context.Context) error { return t.acquisition().Release(ctx, ErrResigned) })
}

// call runs f and names the call in its error.
func (t *Term) call(op string, ctx context.Context, f func(context.Context) error) error {
	if ctx == nil {
		return failed(op, t.Name(), nil, errors.New("nil context"))
	}
	return failed(op, t.Name(), ctx, f(ctx))
}

func init() {
	hooks.KeeperOfTerm = func(v any) hooks.Keeper { return v.(*Term).acquisition() }
}
