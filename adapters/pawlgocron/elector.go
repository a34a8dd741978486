package pawlgocron

import (
	"context"
	"errors"
	"sync"

	"github.com/go-co-op/gocron/v2"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/elect"
)

// An Elector is a gocron.Elector. Of all schedulers with an Elector of one name, one runs jobs. Its
// methods are safe for concurrent use.
type Elector struct {
	stop context.CancelFunc
	done chan struct{} // closed when elect.Run has returned

	mu   sync.Mutex
	term *elect.Term // the current term, or the last one
	err  error       // what Run returned
}

var _ gocron.Elector = (*Elector)(nil)

// NewElector campaigns under the name, in the background and again after each loss, until Close.
// Options are those of elect.Run.
//
// A job that is running when the term is lost continues, so it should use Elector.Context.
func NewElector(c *pawl.Client, name string, opts elect.RunOptions) *Elector {
	ctx, stop := context.WithCancel(context.Background())
	e := &Elector{stop: stop, done: make(chan struct{})}
	go func() { // returns at Close, or at an error that Run does not retry
		defer close(e.done)
		err := elect.Run(ctx, c, name, opts, e.lead)
		e.mu.Lock()
		defer e.mu.Unlock()
		e.err = err
	}()
	return e
}

func (e *Elector) lead(ctx context.Context, t *elect.Term) error {
	e.mu.Lock()
	e.term = t
	e.mu.Unlock()
	<-ctx.Done()
	return ctx.Err()
}

// ErrNotLeader is the error of IsLeader while this scheduler does not lead.
var ErrNotLeader = errors.New("not the leader")

// IsLeader returns nil while this scheduler leads, by the clock at the call. gocron calls it before
// a run. It does no I/O. Otherwise the error matches ErrNotLeader, or is why the campaigns have
// ended.
func (e *Elector) IsLeader(context.Context) error {
	_, err := e.leading()
	return err
}

// Context is for a job that is running. It returns a child of ctx that carries the term's fencing
// token and is cancelled, with the cause, when the term is lost. Call cancel when the work is done.
// Errors are those of IsLeader.
func (e *Elector) Context(ctx context.Context) (_ context.Context, cancel context.CancelFunc, err error) {
	t, err := e.leading()
	if err != nil {
		return nil, nil, err
	}
	return within(ctx, t)
}

func (e *Elector) leading() (*elect.Term, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.term != nil && e.term.Err() == nil:
		return e.term, nil
	case e.err != nil:
		return nil, e.err
	}
	return nil, ErrNotLeader
}

// Close resigns and ends the campaigns. Shut the scheduler down first, so that gocron waits for
// its jobs; another scheduler leads as soon as Close returns.
func (e *Elector) Close() {
	e.stop()
	<-e.done
}
