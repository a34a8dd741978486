package elect

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/queue"
)

// The errors that errors.Is matches. ErrLost comes with exactly one cause: ErrKeyDeleted,
// ErrKeyOverwritten, ErrStalled, ErrOverrun, lease.ErrExpired, lease.ErrRevoked, lease.ErrClosed or
// pawl.ErrClusterChanged. ErrBusy, ErrLost, ErrKeyDeleted, ErrKeyOverwritten and
// ErrStalled are the same values as package lock's.
var (
	// ErrNoLeader means that nobody leads.
	ErrNoLeader = errors.New("nobody leads")
	// ErrBusy means that another leads or is a candidate. It is the same value as package lock's.
	ErrBusy = queue.ErrBusy
	// ErrLost means that the term was led and has been lost.
	ErrLost = queue.ErrLost
	// ErrOverrun means that lead ran for more than RunOptions.Overrun after the end of its context.
	// It is the cause of a term's loss.
	ErrOverrun = errors.New("lead outlived its context")
	// ErrJeopardy means that RunOptions.StopInJeopardy ended lead's context, with this cause. That
	// did not end the term.
	ErrJeopardy = errors.New("in jeopardy: less than a third of the session's validity is left")
	// ErrResigned means that the term was ended by Resign or Run.
	ErrResigned = errors.New("resigned")
	// ErrKeyDeleted means that the key was deleted, alone or with its lease. If the lease is gone,
	// the session matches lease.ErrRevoked a moment later.
	ErrKeyDeleted = queue.ErrKeyDeleted
	// ErrKeyOverwritten means that somebody else wrote to the key.
	ErrKeyOverwritten = queue.ErrKeyOverwritten
	// ErrStalled means that no Progress was reported for as long as RunOptions.Stall allows.
	ErrStalled = queue.ErrStalled
)

// failed wraps the error of a public call, once, with the operation, the name, and the cause. If
// the call ended with its context, the error matches both ctx.Err and ctx's cause.
func failed(op, name string, ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx != nil && ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) && !errors.Is(err, ctx.Err()) {
		err = fmt.Errorf("%w: %w", ctx.Err(), err)
	}
	return fmt.Errorf("elect: %s %s: %w", op, keys.Quote(name), err)
}
