package blobfence

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/backoff"
)

const (
	firstPause = 5 * time.Millisecond
	maxPause   = time.Second
)

// repeat calls try until it is done, with pauses, at most f.Attempts times, and returns its last error.
func (f Fence) repeat(ctx context.Context, name string, t fencing.Token, try func(context.Context) (done bool, err error)) error {
	switch {
	case ctx == nil:
		return errors.New("nil context")
	case f.Store == nil:
		return errors.New("nil store")
	}
	if err := fencing.Check(name, t); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	attempts := f.Attempts
	if attempts <= 0 {
		attempts = DefaultAttempts
	}
	wait := backoff.Backoff{First: firstPause, Most: maxPause}
	for n := 1; ; n++ {
		done, err := try(ctx)
		switch {
		case done:
			return err
		case n == attempts && errors.Is(err, ErrChanged):
			return fmt.Errorf("%w, %d times", ErrContended, n)
		case n == attempts:
			return err
		}
		if !wait.Sleep(ctx) {
			return errors.Join(context.Cause(ctx), err)
		}
	}
}

// newNonce returns a unique name for one write.
func newNonce() string { return rand.Text() }
