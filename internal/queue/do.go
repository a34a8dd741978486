package queue

import (
	"context"

	"github.com/pawl-locks/pawl/internal/cluster"
)

// Do runs fn, and then releases, with as for Err. fn's context is a child of ctx, carries the
// token, and is cancelled with the cause at loss. fn is not called if it is not held or ctx has
// ended. nil: fn returned nil, and it was held until then. If fn panics, Do releases and the
// panic continues.
func (a *Acquisition) Do(ctx context.Context, as error, fn func(ctx context.Context) error) (err error) {
	child, cancel := context.WithCancelCause(a.withToken(ctx))
	defer cancel(nil)
	w := &work{cancel}
	if others, err := a.begin(w); err != nil {
		if others == 0 { // rule ML6: no function uses the other names
			a.freeRest()
		}
		return err
	}
	defer func() { // also if fn panics
		a.callers.returned(w)
		err = both(err, a.Release(ctx, as))
	}()
	if end := cluster.EndOf(ctx); end != nil {
		return end
	}
	return fn(child)
}
