package elect

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-locks/pawl/internal/notify"
	"github.com/pawl-locks/pawl/internal/session"
)

// watchOver returns lead's context, a child of work, and watches lead until ended is called.
// With StopInJeopardy it ends that context when the session's validity runs low. Once the
// context has ended, for whatever reason, it gives lead the time of Overrun to return and then
// abandons the session. release is called if the term stalls.
func (r *runner) watchOver(work context.Context, s *session.Session, t *Term, release func()) (lead context.Context, ended func()) {
	lead, cancel := context.WithCancelCause(work)
	returned, watched := make(chan struct{}), make(chan struct{})
	go func() { // ends after lead; ended waits for it
		defer close(watched)
		if r.opts.StopInJeopardy && !safe(lead, s, t, returned) {
			cancel(ErrJeopardy)
		}
		r.overrun(lead, s, t, release, returned)
	}()
	return lead, func() { close(returned); <-watched; cancel(nil) }
}

// safe returns true when lead's context ends or lead returns, and false when less than a third
// of the session's validity is left.
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
		deadline := s.Deadline()                 // the term's may be that of a stall
		if deadline.IsZero() || t.Err() != nil { // the term is lost, so lead's context ends
			return true
		}
		left := time.Until(deadline) - s.Validity()/3
		if left <= 0 {
			return false
		}
		timer.Reset(left)
	}
}

// overrun abandons the session if lead runs for too long after the end of its context. If the term stalls,
// it first lets another candidate lead.
func (r *runner) overrun(lead context.Context, s *session.Session, t *Term, release func(), returned <-chan struct{}) {
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
	for lost := t.Done(); ; {
		select {
		case <-returned:
			return
		case <-lost:
			lost = nil
			if errors.Is(t.Err(), ErrStalled) {
				release()
				defer r.stalls(t, returned)()
			}
		case <-timer.C:
			s.Abandon(fmt.Errorf("%w by more than %v", ErrOverrun, patience))
		}
	}
}

// stalls reports that lead has stalled, without waiting for Notify. The function that it returns waits for it. A program that exits then
// would leave the key to its lease, so its deletion comes first, unless that takes long, or lead returns.
func (r *runner) stalls(t *Term, returned <-chan struct{}) (notified func()) {
	done := make(chan struct{})
	ev := Event{Kind: Stalled, Term: r.term, Token: r.token, Err: fmt.Errorf("%w; %s still runs", t.Err(), notify.FuncName(r.lead))}
	go func() { // ends with Notify, which notified waits for
		defer close(done)
		t.a.AwaitRemoval(leaveWait, returned)
		r.notify(ev)
	}()
	return func() { <-done }
}
