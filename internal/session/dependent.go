package session

import (
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/pawl-locks/pawl/internal/clock"
)

// A Dependent has keys on the session's lease, and ends with the session. It is an acquisition, which
// waits in queues or is held, and has a key for each of its names. The session's renewals also read
// what the dependent asks for, and the session notifies it of the end. The session calls its methods
// without holding any of its locks, except for End; they must not block.
type Dependent interface {
	// Reads returns what a round reads for it, such as its keys and, while it waits, the one key that
	// it waits for.
	Reads() []Read
	// Arm is called when the arming delay has passed.
	Arm()
	// HoldExpired is called when the time set by Limit has passed.
	HoldExpired()
	// End gives its Machine the end of the session, for cause, and marks its end. It is called once, with the
	// mutex held, in the step that ends the session.
	End(cause error)
	// Ended is called once after End. It notifies the dependent's callers.
	Ended()
}

// A Read is a part of a linearizable read, which is sent after Reads was called. Seen is called with
// the read's revision and, for each of Ops, the first key that it found, or nil.
type Read struct {
	Ops  []*pb.RequestOp
	Seen func(rev int64, shown []*mvccpb.KeyValue)
}

// ArmDelay is how long after an acquisition the watch of its key begins, because a lock held for less
// needs no watch. The watch starts at the acquisition's revision and so misses nothing.
const ArmDelay = 50 * time.Millisecond

// SetReads sets how many operations the Reads of the dependent of e have, besides the one on the key
// that it waits for. Without it the session assumes one.
func (s *Session) SetReads(e *Entry, ops int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.ops = ops
}

// endHolds calls HoldExpired on the dependents whose time has passed, and returns when to call
// it next: at next or earlier.
func (s *Session) endHolds(now clock.Instant, next time.Time) time.Time {
	expired, wakes := s.overdue(now, next)
	for _, d := range expired {
		d.HoldExpired()
	}
	if len(expired) > 0 { // a Progress that read the clock in time may be recorded since, so that one is still held
		_, wakes = s.overdue(now, next)
	}
	return wakes
}

func (s *Session) overdue(now clock.Instant, next time.Time) (expired []Dependent, wakes time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.roster.overdue(now, next)
}

// arm arms the dependents that are due at now and returns when the next is due, or the zero Time if
// there is none.
func (s *Session) arm(now time.Time) time.Time {
	s.mu.Lock()
	due, next := s.roster.due(now)
	s.mu.Unlock()
	for _, d := range due {
		d.Arm()
	}
	return next
}
