package queue

import (
	"context"
	"time"

	"github.com/pawl-locks/pawl/internal/backoff"
	"github.com/pawl-locks/pawl/internal/clock"
)

// workLeft returns a channel that is closed when some of the work has ended that may rest on the hold. idle
// reports that there is none. rest is about the keys that a lost set still has. A function of Do keeps
// those while it runs, unless the session ends. For it the channel is nil, because Do gives the set back.
func (a *Acquisition) workLeft(rest bool) (work <-chan struct{}, idle bool) {
	if rest && a.working() && a.s.Err() == nil {
		return nil, false
	}
	if a.work != nil {
		work = a.work.Pending()
	} else {
		work = a.s.Deferred()
	}
	return work, work == nil
}

// awaitKeep waits until the keys of a hold that has ended may go, or with rest what a lost set still has. It
// returns false if ctx ends first. It
// reads the clock again after each wait, because a timer stops during a suspend.
func (a *Acquisition) awaitKeep(ctx context.Context, rest bool) bool {
	ended, given := a.s.Done(), a.givenBack()
	for {
		work, idle := a.workLeft(rest)
		at, ok := a.s.MayGo(&a.entry, idle, rest)
		left := at.Sub(clock.Now())
		if ok && left <= 0 {
			return true
		}
		late := time.NewTimer(left)
		if !ok {
			late.Stop() // the work is waited for
		}
		select {
		case <-late.C:
		case <-work:
		case <-ended:
			ended = nil
		case <-given:
			given = nil
		case <-ctx.Done():
		}
		late.Stop()
		if ctx.Err() != nil {
			return false
		}
	}
}

// leaveUnreleased has its keys deleted by the session once no work is left that may rest on them.
func (a *Acquisition) leaveUnreleased(ctx context.Context) {
	for {
		work, idle := a.workLeft(false)
		if _, ok := a.s.MayGo(&a.entry, idle, false); ok {
			a.s.Leave(&a.entry)
			return
		}
		select {
		case <-work:
		case <-a.s.Done():
			return // they end with the lease
		case <-ctx.Done():
			return
		}
	}
}

// removalLook is how often AwaitRemoval looks.
const removalLook = 10 * time.Millisecond

// AwaitRemoval waits until the keys of a hold that has ended are deleted, which is under way, but for most at
// most. It returns as soon as stop is closed, or the session has ended.
func (a *Acquisition) AwaitRemoval(most time.Duration, stop <-chan struct{}) {
	for began := time.Now(); a.s.MayHaveKeys(&a.entry) && time.Since(began) < most; {
		if !backoff.Wait(removalLook, a.s.Done(), stop) {
			return
		}
	}
}
