package session

import (
	"context"
	"time"

	"github.com/pawl-locks/pawl/internal/clock"
)

// run keeps the session until it ends. The renewals have a separate goroutine, so that whatever holds
// them up does not hold up the end.
func (s *Session) run() {
	defer close(s.stopped)
	ctx, cancel := context.WithCancel(context.Background())
	renewals := make(chan struct{})
	go func() { // ends with ctx; waited for below
		defer close(renewals)
		newRenewer(ctx, s).run()
	}()
	s.endInTime()
	cancel()
	<-renewals
}

// endInTime ends the session at its deadline or with its cluster, and holds at their limits. It returns
// when the session has ended. It does nothing else (rule T6): it does not write to the log, call the
// observer, or send a request, and locks no mutex that is locked while something else does.
func (s *Session) endInTime() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-s.done:
			return
		case <-s.host.Cluster.Ended():
		case <-s.sooner:
		case <-timer.C:
		}
		if s.Err() != nil {
			return
		}
		timer.Reset(time.Until(s.endHolds(clock.Now(), s.Deadline())))
	}
}

// endSooner makes endInTime set its timer again, because something ends before the time that it knows.
func (s *Session) endSooner() {
	select {
	case s.sooner <- struct{}{}:
	default:
	}
}
