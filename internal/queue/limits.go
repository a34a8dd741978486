package queue

import (
	"fmt"
	"time"

	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/internal/queue/state"
)

// Limits bound how long a lock is held at most, and how long its key is kept at least. The time
// counts from when the acquisition was won, or resumed, in this process. The keys of a resumed one
// are also kept for as long as the predecessor had to keep them.
type Limits struct {
	Max     time.Duration // a hold that lasts longer is lost with ErrMaxHold; 0 means no limit
	AtLeast time.Duration // an earlier release leaves the key until then; 0 means none
}

// bounds say when Limits end a hold, and until when they keep its keys.
type bounds struct {
	Limits
	won  clock.Instant
	kept clock.Instant // zero if the keys need not stay
}

// limit starts Limits once the lock is held and on the session's roster. The session's loop reports
// the end of the hold, and Err compares the clock. kept is until when the session's predecessor had
// to keep the keys. It is zero if it did not have to, or if there was no predecessor.
func (a *Acquisition) limit(l Limits, kept clock.Instant) {
	if l == (Limits{}) && kept.IsZero() {
		return
	}
	now := clock.Now()
	if until := now.Add(l.AtLeast); l.AtLeast > 0 && kept.Before(until) {
		kept = until
		a.s.Keep(&a.entry, kept)
	}
	a.bounds.Store(&bounds{l, now, kept})
	if end, ok := a.holdEnd(); ok {
		a.s.Limit(&a.entry, end)
	}
}

// holdEnd returns when its hold ends. It returns false if only the session ends it.
func (a *Acquisition) holdEnd() (clock.Instant, bool) {
	b := a.bounds.Load()
	if b == nil || b.Max == 0 {
		return clock.Instant{}, false
	}
	return b.won.Add(b.Max), true
}

// keeps reports whether the keys have to stay for now.
func (a *Acquisition) keeps() bool {
	b := a.bounds.Load()
	return b != nil && clock.Now().Before(b.kept)
}

// HoldExpired implements session.Dependent: it compares the clock.
func (a *Acquisition) HoldExpired() { _ = a.Err() }

// overheld reports whether the hold has lasted as long as it may, and ends it if so.
func (a *Acquisition) overheld() bool {
	end, ok := a.holdEnd()
	if !ok || clock.Now().Before(end) {
		return false
	}
	a.apply(state.HoldExpired{}, fmt.Errorf("%w: for %v", ErrMaxHold, a.bounds.Load().Max))
	return true
}
