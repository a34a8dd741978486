package session

import (
	"time"

	"github.com/pawl-locks/pawl/internal/clock"
)

// An Acquisition is what has keys on the session's lease, one for each of its names:
// positions in queues, or what is held.
// Its methods are called without any of the session's locks held, and must not
// block.
type Acquisition interface {
	// Keys are what a round reads: the acquisition's own keys and, while it waits,
	// the one key that it waits for; "" for none. An acquisition without an
	// own key is not read at all. What it returns is not changed.
	Keys() (own []string, predecessor string)
	// Observe reports what a linearizable read at revision rev, sent after Keys was
	// called, showed of the own key at place, which was key, and, with the first, of the
	// predecessor.
	Observe(rev int64, place int, key string, own, predecessor Observed)
	// Arm is called when the arming delay has passed.
	Arm()
	// HoldOver is called when the time that Limit set has come.
	HoldOver()
	// End is called once, when the session has ended, with the cause.
	End(cause error)
}

// Observed is what a keys-only read showed of one key; zero: it was not there, or
// not read.
type Observed struct{ Create, Mod int64 }

// ArmDelay is how long after its acquisition the watch of a lock's own key is
// opened: a lock held for less needs none. The watch starts at the
// acquisition's revision and so misses nothing.
const ArmDelay = 50 * time.Millisecond

// Wait adds c, which acquires or waits, to what hangs on the session. The error
// says why the session has ended.
func (s *Session) Wait(h *Hook, c Acquisition) error { return s.add(h, c, false, 0) }

// Hold adds c, whose entry is n, or moves it from the waiting ones: it is held
// from now on, and so it is what a Detach leaves to a successor.
func (s *Session) Hold(h *Hook, c Acquisition, n int64) error { return s.add(h, c, true, n) }

// add puts c on the roster; where it is held, its entry n is won in the same step,
// so that no Handle can have the one without the other.
func (s *Session) add(h *Hook, c Acquisition, held bool, n int64) error {
	if err := s.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.ended.Load(); e != nil {
		return e.err
	}
	s.roster.add(h, c, held)
	if held {
		s.ledger.move(n, won, nil)
	}
	return nil
}

// Drop takes an acquisition off the session; nothing more is called on it, except
// Observe for a read that is under way.
func (s *Session) Drop(h *Hook) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.roster.drop(h)
}

// ArmLater has the acquisition of h armed after ArmDelay, unless it is dropped before.
func (s *Session) ArmLater(h *Hook) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended.Load() == nil { // nobody would take it off the list
		s.roster.armLater(h, time.Now())
	}
}

// Limit has HoldOver called on the acquisition of h at until, if it is held then. The
// holder's calls compare the clock, too.
func (s *Session) Limit(h *Hook, until clock.Instant) {
	s.mu.Lock()
	soon := s.roster.limit(h, until)
	s.mu.Unlock()
	if soon {
		s.wake()
	}
}

// endHolds calls HoldOver on the acquisitions whose time has come, and returns when it wants
// to be called again, at next at the latest.
func (s *Session) endHolds(now clock.Instant, next time.Time) time.Time {
	s.mu.Lock()
	over, next := s.roster.overdue(now, next)
	s.mu.Unlock()
	for _, c := range over {
		c.HoldOver()
	}
	return next
}

// arm arms the acquisitions that are due at now and returns when the next is; the zero
// Time: none.
func (s *Session) arm(now time.Time) time.Time {
	s.mu.Lock()
	due, next := s.roster.due(now)
	s.mu.Unlock()
	for _, c := range due {
		c.Arm()
	}
	return next
}
