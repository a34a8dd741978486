package elect

import (
	"context"
	"fmt"
	"time"

	"github.com/pawl-locks/pawl/internal/session"
)

// watchOver gives the context that lead works with, a child of work, and watches over
// lead until ended is called: with StopInJeopardy it ends that context when the
// session's validity runs low, and once the context has ended, for whatever reason, it
// gives lead its time to return and then abandons the session.
func (r *runner) watchOver(work context.Context, s *session.Session, t *Term) (lead context.Context, ended func()) {
	lead, cancel := context.WithCancelCause(work)
	returned, watched := make(chan struct{}), make(chan struct{})
	go func() { // ends with lead; ended waits for it
		defer close(watched)
		if r.opts.StopInJeopardy && !safe(lead, s, t, returned) {
			cancel(ErrJeopardy)
		}
		r.overrun(lead, s, returned)
	}()
	return lead, func() { close(returned); <-watched; cancel(nil) }
}

// safe waits until lead's context ends, or lead returns: true; or until less than a
// third of the session's validity is left: false.
func safe(lead context.Context, s *session.Session, t *Term, returned <-chan struct{}) bool {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-returned:
			return true
		case <-lead.Done():
			return true
		case <-timer.C:
		}
		deadline := t.Deadline()
		if deadline.IsZero() { // lost, so that lead's context ends
			return true
		}
		left := time.Until(deadline) - s.Validity()/3
		if left <= 0 {
			return false
		}
		timer.Reset(left)
	}
}

// overrun abandons the session if lead goes on for longer than it may after the end of
// its context.
func (r *runner) overrun(lead context.Context, s *session.Session, returned <-chan struct{}) {
	select {
	case <-returned:
		return
	case <-lead.Done():
	}
	patience := r.opts.Overrun
	if patience == 0 {
		patience = s.TTL()
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-returned:
	case <-timer.C:
		s.Abandon(fmt.Errorf("%w by more than %v", ErrOverrun, patience))
	}
}
