package queue

import (
	"fmt"
	"time"

	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/internal/queue/state"
)

// Limits bound how long a lock is held at most, and how long its key is kept at least. The time
// counts from when the acquisition was won, or resumed, in this process.
type Limits struct {
	Max     time.Duration // a hold that lasts longer is lost with ErrMaxHold; 0: none
	AtLeast time.Duration // an earlier release leaves the key until then; 0: none
}

// Check reports what is wrong with l.
func (l Limits) Check() error {
	if l.Max < 0 {
		return fmt.Errorf("Options.MaxHold is %v, want 0 or more", l.Max)
	}
	if l.AtLeast < 0 {
		return fmt.Errorf("Options.AtLeast is %v, want 0 or more", l.AtLeast)
	}
	return nil
}

// limit starts Limits once the lock is held and on the session's roster. The session's loop
// reports the end of the hold; Err compares the clock.
func (a *Acquisition) limit(l Limits) {
	if l.AtLeast > 0 {
		until := clock.Now().Add(l.AtLeast)
		a.mu.Lock()
		a.keptTo = until
		a.mu.Unlock()
	}
	if l.Max == 0 {
		return
	}
	end := &holdEnd{at: clock.Now().Add(l.Max), max: l.Max}
	a.holdEnd.Store(end)
	a.s.Limit(&a.hook, end.at)
}

// A holdEnd is when Limits end a hold.
type holdEnd struct {
	at  clock.Instant
	max time.Duration
}

// keeps reports whether its own key has to stay for now, and until when.
func (a *Acquisition) keeps() (until time.Time, ok bool) {
	kept := a.keptUntil()
	if kept.IsZero() {
		return time.Time{}, false
	}
	now := clock.Now()
	return kept.Time(now), now.Before(kept)
}

// keptUntil is until when its own key has to stay; zero: it need not.
func (a *Acquisition) keptUntil() clock.Instant {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.keptTo
}

// HoldExpired implements session.Acquisition: it compares the clock.
func (a *Acquisition) HoldExpired() { _ = a.Err() }

// overheld reports whether the hold has lasted as long as it may, and if so ends it.
func (a *Acquisition) overheld() bool {
	end := a.holdEnd.Load()
	if end == nil || clock.Now().Before(end.at) {
		return false
	}
	a.apply(state.HoldExpired{}, &detail{ErrMaxHold, fmt.Sprintf("for %v", end.max)})
	return true
}
