package shard

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawl-locks/pawl/internal/keys"
)

// The errors that errors.Is matches, besides those of package lock.
var (
	// ErrMoved is the cause of the end of work's context when another worker waits for the shard. The
	// shard is still held, so work can save what it has, and return. It is also the cause of the loss
	// of a Held that Options.Overrun took from its work.
	ErrMoved = errors.New("the shard is wanted elsewhere")
	// ErrCount means that other workers of the name were started with another number of shards.
	ErrCount = errors.New("others share out another number of shards")
)

var errNilContext = errors.New("nil context")

// failed wraps the error of a public call.
func failed(op, name string, ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx != nil && ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) && !errors.Is(err, ctx.Err()) {
		err = fmt.Errorf("%w: %w", ctx.Err(), err)
	}
	return fmt.Errorf("shard: %s %s: %w", op, keys.Quote(name), err)
}
