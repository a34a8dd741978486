package elect

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/queue"
)

// What errors.Is matches. ErrLost comes with exactly one cause: ErrKeyDeleted,
// ErrKeyOverwritten, ErrOverrun, lease.ErrExpired, lease.ErrRevoked, lease.ErrClosed
// or pawl.ErrClusterChanged. ErrBusy, ErrKind, ErrLost, ErrKeyDeleted and ErrKeyOverwritten
// are the same values as package lock's.
var (
	// ErrNoLeader: nobody leads.
	ErrNoLeader = errors.New("nobody leads")
	// ErrBusy: another leads or is a candidate. It is the same value as package lock's.
	ErrBusy = queue.ErrBusy
	// ErrKind: the name is a semaphore's, or a key that is to be resumed is a lock's. It is the same value as package lock's.
	ErrKind = queue.ErrKind
	// ErrLost: it was a term, and is over.
	ErrLost = queue.ErrLost
	// ErrOverrun: lead outlived its context by more than RunOptions.Overrun. It is the
	// cause of a term's loss.
	ErrOverrun = errors.New("lead outlived its context")
	// ErrJeopardy: RunOptions.StopInJeopardy has ended lead's context, of which it is
	// the cause. The term was not lost by that.
	ErrJeopardy = errors.New("in jeopardy: less than a third of the session's validity is left")
	// ErrResigned: the term was given back, by Resign or Run.
	ErrResigned = errors.New("resigned")
	// ErrKeyDeleted: somebody deleted the key while its session was alive.
	ErrKeyDeleted = queue.ErrKeyDeleted
	// ErrKeyOverwritten: somebody else wrote to the key.
	ErrKeyOverwritten = queue.ErrKeyOverwritten
)

// failed is the one wrapping of a public call's error: the operation, the name,
// the cause. Where the call ended with its context, the error matches ctx.Err
// and ctx's cause alike.
func failed(op, name string, ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx != nil && ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) && !errors.Is(err, ctx.Err()) {
		err = fmt.Errorf("%w: %w", ctx.Err(), err)
	}
	return fmt.Errorf("elect: %s %s: %w", op, keys.Quote(name), err)
}
