package session

import (
	"time"

	"github.com/pawl-locks/pawl/internal/clock"
)

// Limits bound how long a lock is held at most, and how long its key is kept at least. The time
// counts from when the acquisition was won, or resumed, in this process. The keys of a resumed one
// are also kept for as long as the predecessor had to keep them.
type Limits struct {
	Max     time.Duration // a hold that lasts longer is lost; 0 means no limit
	AtLeast time.Duration // an earlier release leaves the key until then; 0 means none
	Stall   time.Duration // a hold without progress for that long is lost; 0 means no limit
}

// Bound is until when the hold of e may last at most, or nil if only the session ends it. It may be called
// without the mutex.
func (e *Entry) Bound() *Bound { return e.bound.Load() }

// Unbind has only the session end the hold of e. The caller holds the mutex.
func (e *Entry) Unbind() { e.bound.Store(nil) }

// Stays reports whether the keys of e have to stay for now, even if it is released. The caller holds the mutex.
func (e *Entry) Stays() bool { return e.keeping != nil && clock.Now().Before(e.keeping.Until) }

// Limit starts l for e, which is held from now on. Its dependent's HoldExpired is called at the end of l.Max or
// l.Stall, if it is held then; the dependent's Err compares the clock too. The caller holds the mutex.
func (s *Session) Limit(e *Entry, l Limits) {
	if l == (Limits{}) {
		return
	}
	now := clock.Now()
	if l.AtLeast > 0 {
		e.keep().Until = later(e.keep().Until, now.Add(l.AtLeast))
	}
	if (l.Max > 0 || l.Stall > 0) && s.roster.limit(e, &Bound{Max: l.Max, Stall: l.Stall, began: now}, now) {
		s.endSooner()
	}
}
