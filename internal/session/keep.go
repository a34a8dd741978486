package session

import (
	"slices"
	"time"

	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/queue/state"
)

// A Keep is what keeps the keys of an entry after its hold has ended. The zero Keep keeps nothing. All
// but Until and Promised is about a hold that ended without its release.
type Keep struct {
	Until     clock.Instant // Limits.AtLeast, of a predecessor too: even a release leaves the keys until then
	Promised  clock.Instant // until then somebody outside this process may believe that it is held (rule V4)
	Ended     clock.Instant // when the hold ended; zero if it did not, or by its release
	WorkEnded clock.Instant // when no work that may rest on the hold was left; zero before it was seen
	Unclaimed clock.Instant // of a set that lost a key: then its other keys count as given back (rule ML6)
	Unused    clock.Instant // of such a set: WorkEnded of its other keys, on which a function of Do may rest too
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

// Promise keeps the keys of e from being deleted, and the lease from being revoked, before until, whatever
// ends the hold or the session later, except its release (rule V4). If the session has already ended, it
// promises nothing and returns the reason. The client's Close waits for a promise as long as for any
// removal, and then leaves the lease to expire.
func (s *Session) Promise(e *Entry, until clock.Instant) error {
	return s.whileValid(func() error {
		e.keep().Promised = later(e.keep().Promised, until)
		return nil
	})
}

// Retract withdraws what was promised of e.
func (s *Session) Retract(e *Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.keep().Promised = clock.Instant{}
}

// KeptAfterRelease returns until when the session keeps key, which was released (Limits.AtLeast). It returns
// false if key is none that is only kept.
func (s *Session) KeptAfterRelease(key string) (until clock.Instant, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k, ok := keys.ParseQueueKey(key)
	if !ok || k.Lease != s.id {
		return clock.Instant{}, false
	}
	e := s.book.entries[k.N]
	if e == nil || e.End != state.GivenBack || e.Phase != state.Undoing || !slices.Contains(e.keys, key) {
		return clock.Instant{}, false
	}
	return e.kept().Until, !e.kept().Until.IsZero()
}

// GiveBack records that e, a set that lost a key, was released after the loss.
func (s *Session) GiveBack(e *Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.keep().Released = true
}

// MayGo returns from when the keys of e may go, as Keep.May, and records when its work was first seen to
// have ended. rest says that they are the keys that a lost set still has. Their work may last longer than
// that of the key that was lost, so each of the two is recorded. AtLeast goes on in who takes the session
// over, so a detached session's end does not end it.
func (s *Session) MayGo(e *Entry, idle, rest bool) (at clock.Instant, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := e.keep()
	ended := &k.WorkEnded
	if rest {
		ended = &k.Unused
	}
	if ended.IsZero() && (idle || k.Released) {
		*ended = clock.Now()
	}
	about := *k
	about.WorkEnded = *ended
	if !rest {
		about.Unclaimed = clock.Instant{}
	}
	at, ok = about.May(s.validity.delay, idle, s.ended.Load() != nil)
	if s.revocation.handedOver {
		at = later(at, k.Until)
	}
	return at, ok
}
