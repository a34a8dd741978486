package session

import (
	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/internal/keys"
)

// The tests of this package do to entries what package queue does, by these functions. They name an
// entry by its number.

// opens begins an entry with a key in each of several queues.
func opens(s *Session, specs ...keys.Spec) (n int64, own []string, err error) {
	return s.Begin(specs...)
}

// begin begins an entry with one key in the queue with this prefix.
func begin(s *Session, prefix string) (n int64, key string, err error) {
	n, own, err := opens(s, keys.Spec{Prefix: prefix})
	if err != nil {
		return 0, "", err
	}
	return n, own[0], nil
}

// isAnswered says that no copy of the enqueue of entry n can be applied any more.
func isAnswered(s *Session, n int64) { s.Learn(n, Answered) }

// wins makes entry n, which no dependent has, held.
func wins(s *Session, n int64) { s.Learn(n, won) }

// isUnwanted says that nobody wants entry n any more. It is not removed yet.
func isUnwanted(s *Session, n int64) { s.Learn(n, Unwanted) }

// isUnreleased ends the hold of entry n otherwise than by its release.
func isUnreleased(s *Session, n int64) { s.Lost(n, 0) }

// isAbsent says that the keys of entry n do not exist and never will.
func isAbsent(s *Session, n int64) { s.Learn(n, Absent) }

// leaves has entry n removed.
func leaves(s *Session, n int64) { s.Leave(n) }

// adopt resumes entry n, which the session's predecessor left.
func adopt(s *Session, n int64, own ...string) bool { return s.Adopt(n, own...) }

// waits adds d to the roster as one that waits.
func (d *dependent) waits(s *Session) error { return s.Wait(&d.hook, d) }

// holds adds d to the roster as one that holds entry n, or 0 if it has none.
func (d *dependent) holds(s *Session, n int64, arm bool) error { return s.Hold(&d.hook, d, n, arm) }

// drops removes d from the roster.
func (d *dependent) drops(s *Session) { s.Drop(&d.hook) }

// reads sets how many operations the reads of d have.
func (d *dependent) reads(s *Session, ops int) { s.SetReads(&d.hook, ops) }

// limits has the hold of d end at until.
func (d *dependent) limits(s *Session, until clock.Instant) { s.Limit(&d.hook, until) }
