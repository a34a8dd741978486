package session

import (
	"time"

	"github.com/pawl-locks/pawl/internal/clock"
)

// A Keep is what keeps the keys of an entry after its hold has ended. The zero Keep keeps nothing. All
// but Until and Promised is about a hold that ended without its release.
type Keep struct {
	Until     clock.Instant // Limits.AtLeast: even a release leaves the keys until then
	Promised  clock.Instant // until then somebody outside this process may believe that it is held (rule V4)
	Ended     clock.Instant // when the hold ended; zero if it did not, or by its release
	WorkEnded clock.Instant // when no work that may rest on the hold was left; zero before it was seen
	Unclaimed clock.Instant // of a set that lost a key: then its other keys count as given back (rule ML6)
	Released  bool          // of such a set: it was released after the loss
}

// May returns from when the keys may go. It returns false while work that may rest on the hold is not
// known to have ended. idle says that no such work is left. The lock-delay counts from the end of the
// hold, of its work, or of what was promised, whichever comes last (rules LD2, LD3). The end of the session
// ends AtLeast, and the time in which a lost set may be claimed.
func (k Keep) May(delay time.Duration, idle, sessionEnded bool) (at clock.Instant, ok bool) {
	if !sessionEnded {
		at = k.Until
	}
	if k.Ended.IsZero() {
		return at, true
	}
	if !k.Released {
		if !idle && k.WorkEnded.IsZero() {
			return clock.Instant{}, false
		}
		at = later(at, k.Promised)
		if !sessionEnded {
			at = later(at, k.Unclaimed)
		}
	}
	if delay > 0 {
		at = later(at, later(k.Ended, later(k.WorkEnded, k.Promised)).Add(delay))
	}
	return at, true
}

// Promise keeps the keys of entry n from being deleted, and the lease from being revoked, before until,
// whatever ends the hold or the session later, except its release (rule V4). If the session has already
// ended, it promises nothing and returns the reason. The client's Close waits for a promise as long as for
// any removal, and then leaves the lease to expire.
func (s *Session) Promise(n int64, until clock.Instant) error {
	return s.whileValid(func() error {
		s.ledger.keeping(n, func(k *Keep) { k.Promised = later(k.Promised, until) })
		return nil
	})
}

// Retract withdraws what was promised of entry n.
func (s *Session) Retract(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ledger.keeping(n, func(k *Keep) { k.Promised = clock.Instant{} })
}

// Keep has the keys of entry n stay until then, even if it is released earlier, in this process or in
// one that takes the session over.
func (s *Session) Keep(n int64, until clock.Instant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ledger.keeping(n, func(k *Keep) { k.Until = later(k.Until, until) })
}

// KeptUntil is until when the keys of entry n have to stay after a release, or zero if they need not.
func (s *Session) KeptUntil(n int64) clock.Instant {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ledger.entries[n].keep.Until
}

// Lost records that the hold of entry n ends now, without its release, so that it has to be removed. If unclaimed is not 0, it is a set
// that lost a key, and counts as given back after so long.
func (s *Session) Lost(n int64, unclaimed time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := clock.Now()
	s.ledger.move(n, Unreleased, nil)
	s.ledger.keeping(n, func(k *Keep) {
		if k.Ended.IsZero() {
			k.Ended = now
		}
		if unclaimed > 0 {
			k.Unclaimed = now.Add(unclaimed)
		}
	})
}

// GiveBack records that entry n, a set that lost a key, was released after the loss.
func (s *Session) GiveBack(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ledger.keeping(n, func(k *Keep) { k.Released = true })
}

// MayGo returns from when the keys of entry n may go, as Keep.May, and records when its work was first
// seen to have ended. rest says that they are the keys that a lost set still has.
func (s *Session) MayGo(n int64, idle, rest bool) (at clock.Instant, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ledger.state(n) == gone {
		return clock.Instant{}, true
	}
	s.ledger.keeping(n, func(k *Keep) {
		if k.WorkEnded.IsZero() && (idle || k.Released) {
			k.WorkEnded = clock.Now()
		}
		about := *k
		if !rest {
			about.Unclaimed = clock.Instant{}
		}
		at, ok = about.May(s.validity.delay, idle, s.ended.Load() != nil)
	})
	return at, ok
}

// keeping calls f on what keeps the keys of entry n, unless the entry is gone.
func (l *ledger) keeping(n int64, f func(k *Keep)) {
	st := l.state(n)
	if st == gone {
		return
	}
	e := l.entries[n]
	e.state = st // one of a predecessor may not be there yet
	f(&e.keep)
	l.entries[n] = e
}

// keptUntil returns until when the lease of a session that ended at ended has to stay. work is when the
// work ended that deferred its revocation; zero if there was none.
func (l *ledger) keptUntil(delay time.Duration, ended, work clock.Instant) (until clock.Instant) {
	for _, e := range l.entries {
		k := e.keep
		switch e.state {
		case held, lost:
			if k.Ended.IsZero() {
				k.Ended = ended
			}
			if k.WorkEnded.IsZero() {
				k.WorkEnded = work
			}
			at, _ := k.May(delay, true, true)
			until = later(until, at)
		case gone:
			continue
		}
		until = later(until, k.Promised)
	}
	if l.unresumed() {
		until = later(until, l.takenOver)
	}
	return until
}

// unresumed reports whether a predecessor may have held something that this process has not resumed.
func (l *ledger) unresumed() bool {
	known := int64(0)
	for n, e := range l.entries {
		if n < l.inherited && e.state != inherited {
			known++
		}
	}
	return known < l.inherited-1
}
