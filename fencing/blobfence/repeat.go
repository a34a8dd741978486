package blobfence

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"time"

	"github.com/pawl-locks/pawl/fencing"
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
	pause := firstPause
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
		if ended := sleep(ctx, pause/2+mathrand.N(pause)); ended != nil {
			return errors.Join(ended, err)
		}
		pause = min(2*pause, maxPause)
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// newNonce returns a name for one write, which no other has.
func newNonce() string { return rand.Text() }
