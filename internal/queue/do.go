package queue

import (
	"context"
	"slices"

	"github.com/pawl-locks/pawl/internal/cluster"
)

// work is a function of Do under way.
type work struct{ cancel context.CancelCauseFunc }

// Do runs fn, and then releases, with as for Err. fn's context is a child of
// ctx, carries the token, and is cancelled with the cause at loss. fn is not
// called unless it is held, nor if ctx has ended. nil: fn returned nil, and it
// was held until then. A panic in fn releases and goes on up.
func (c *Claim) Do(ctx context.Context, as error, fn func(ctx context.Context) error) (err error) {
	child, cancel := context.WithCancelCause(c.withToken(ctx))
	defer cancel(nil)
	w := &work{cancel}
	if err := c.begin(w); err != nil {
		return err
	}
	defer func() { // also while a panic goes up
		c.finished(w)
		err = both(err, c.Release(ctx, as))
	}()
	if ctx.Err() != nil {
		return cluster.EndOf(ctx)
	}
	return fn(child)
}

// begin notes w, to be told of a loss, unless the claim is over.
func (c *Claim) begin(w *work) error {
	for {
		if err := c.Err(); err != nil {
			return err
		}
		c.mu.Lock()
		alive := c.fate.Load() == nil
		if alive {
			c.works = append(c.works, w)
		}
		c.mu.Unlock()
		if alive {
			return nil
		}
	}
}

func (c *Claim) finished(w *work) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.works = slices.DeleteFunc(c.works, func(other *work) bool { return other == w })
}
