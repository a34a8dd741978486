package queue

import (
	"time"

	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/internal/session"
	"github.com/pawl-locks/pawl/observe"
)

// MinStall is the least Limits.Stall.
const MinStall = time.Second

// Progress reports that the work under the hold got something done, and returns what Err does. It reads the
// clock once for what it records. A second reading could come after a suspend, and so record time in which
// nothing was done.
func (a *Acquisition) Progress() error {
	if b := a.entry.Bound(); b != nil && b.Stall > 0 {
		now := clock.Now()
		if !a.endsBy(b, now) && b.Progress(now) {
			a.notifyProgress()
		}
	}
	return a.Err()
}

// BoundStall has the hold end when no Progress is reported for stall, counted from now, or no longer if stall
// is 0. It replaces all Limits. It is for work that begins later than the hold.
func (a *Acquisition) BoundStall(stall time.Duration) {
	a.mu.Lock()
	a.entry.Unbind()
	a.s.Limit(&a.entry, session.Limits{Stall: stall})
	a.mu.Unlock()
	a.notifyProgress()
}

// notifyProgress delivers that the time without progress counts anew, or no longer. It waits for no observer,
// and delivers nothing after the end.
func (a *Acquisition) notifyProgress() {
	v := a.notice
	if v == nil {
		return
	}
	ev := observe.Progressed{Acquisition: a.which(), Election: a.queues[0].Election}
	if b := a.entry.Bound(); b != nil {
		ev.Stall = b.Stall
	}
	v.source.LaterUnless(v.ctx, ev, func() bool {
		v.mu.Lock()
		defer v.mu.Unlock()
		return v.hasEnded
	})
}
