package queue

import (
	"context"
	"slices"

	"github.com/pawl-locks/pawl/internal/cluster"
)

// work is a call of Do under way.
type work struct{ cancel context.CancelCauseFunc }

// Do runs fn, and then releases, with as for Err. fn's context is a child of ctx, carries the
// token, and is cancelled with the cause at loss. fn is not called if it is not held or ctx has
// ended. nil: fn returned nil, and it was held until then. If fn panics, Do releases and the
// panic continues.
func (a *Acquisition) Do(ctx context.Context, as error, fn func(ctx context.Context) error) (err error) {
	child, cancel := context.WithCancelCause(a.withToken(ctx, a.queue, a.Token()))
	defer cancel(nil)
	w := &work{cancel}
	if others, err := a.begin(w); err != nil {
		if others == 0 { // rule ML6: no function uses the other names
			a.freeRest()
		}
		return err
	}
	defer func() { // also if fn panics
		a.finished(w)
		err = both(err, a.Release(ctx, as))
	}()
	if end := cluster.EndOf(ctx); end != nil {
		return end
	}
	return fn(child)
}

// begin records w, to be cancelled at loss. It fails if the acquisition has ended; others is
// then how many calls of Do are under way.
func (a *Acquisition) begin(w *work) (others int, err error) {
	for {
		err := a.Err()
		a.mu.Lock()
		others, alive := a.working, a.ended.Load() == nil
		if err == nil && alive {
			a.works = append(a.works, w)
			a.working++
		}
		a.mu.Unlock()
		if err != nil || alive {
			return others, err
		}
	}
}

func (a *Acquisition) finished(w *work) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.working--
	a.works = slices.DeleteFunc(a.works, func(other *work) bool { return other == w })
}
