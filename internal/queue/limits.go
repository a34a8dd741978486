package queue

import (
	"fmt"
	"time"

	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/internal/queue/state"
)

// Limits bound how long a lock is held at most, and how long its key is kept at least. The time
// counts from when the acquisition was won, or resumed, in this process. A resumed one's keys are
// kept for as long as those of the predecessor had to be, too.
type Limits struct {
	Max     time.Duration // a hold that lasts longer is lost with ErrMaxHold; 0: none
	AtLeast time.Duration // an earlier release leaves the key until then; 0: none
}

// bounds are when Limits end a hold, and until when they keep its keys.
type bounds struct {
	Limits
	won  clock.Instant
	kept clock.Instant // zero: the keys need not stay
}

// limit starts Limits once the lock is held and on the session's roster. The session's loop
// reports the end of the hold; Err compares the clock. kept is until when the session's
// predecessor had to keep the keys; zero: it had not, or there was none.
func (a *Acquisition) limit(l Limits, kept clock.Instant) {
	if l == (Limits{}) && kept.IsZero() {
		return
	}
	now := clock.Now()
	if until := now.Add(l.AtLeast); l.AtLeast > 0 && kept.Before(until) {
		kept = until
		a.s.Keep(a.n, kept)
	}
	a.bounds.Store(&bounds{l, now, kept})
	if end, ok := a.holdEnd(); ok {
		a.s.Limit(&a.hook, end)
	}
}

// holdEnd is when its hold ends; false: only with the session.
func (a *Acquisition) holdEnd() (clock.Instant, bool) {
	b := a.bounds.Load()
	if b == nil || b.Max == 0 {
		return clock.Instant{}, false
	}
	return b.won.Add(b.Max), true
}

// keptUntil is until when its own keys have to stay after a release; zero: they need not.
func (a *Acquisition) keptUntil() clock.Instant {
	if b := a.bounds.Load(); b != nil {
		return b.kept
	}
	return clock.Instant{}
}

// keeps reports whether its own keys have to stay for now, and until when.
func (a *Acquisition) keeps() (until time.Time, ok bool) {
	kept := a.keptUntil()
	if kept.IsZero() {
		return time.Time{}, false
	}
	now := clock.Now()
	return kept.Time(now), now.Before(kept)
}

// HoldExpired implements session.Dependent: it compares the clock.
func (a *Acquisition) HoldExpired() { _ = a.Err() }

// overheld reports whether the hold has lasted as long as it may, and if so ends it.
func (a *Acquisition) overheld() bool {
	end, ok := a.holdEnd()
	if !ok || clock.Now().Before(end) {
		return false
	}
	a.apply(state.HoldExpired{}, &detail{ErrMaxHold, fmt.Sprintf("for %v", a.bounds.Load().Max)})
	return true
}
