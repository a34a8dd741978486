package session

import (
	"fmt"
	"time"

	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/internal/keys"
)

// Begin adds entry n to the session, with a key at each of specs, which have different names. No key
// name is ever used again (rule A1). A Handle lists the entry, to be removed, until it is Absent, but
// not while it is held. If the session has ended, Begin returns the reason (see unlessEnded).
func (s *Session) Begin(specs ...keys.Spec) (n int64, own []string, err error) {
	err = s.unlessEnded(func() error {
		n, own = s.ledger.begin(s.id, specs...)
		return nil
	})
	return n, own, err
}

// Add gives entry n, whose key is known to exist, another key in the same queue. It is called before
// that key may be put. Once it has returned, a removal of the entry, and a Handle, cover both keys.
// cancels says that the cancel key, which did not settle the entry's enqueue, is put and removed
// together with the new key. If the session or the entry has ended, Add returns the reason.
func (s *Session) Add(n int64, key string, cancels bool) error {
	return s.whileValid(func() error {
		if !s.ledger.add(n, key, cancels) {
			return fmt.Errorf("entry %d is not there", n)
		}
		return nil
	})
}

// CancelKey is the cancel key of entry n: while it exists, no late copy of the entry's enqueue
// can be applied (rule A5).
func (s *Session) CancelKey(n int64) []byte { return keys.CancelKey(s.own.key, n) }

// OwnerKey is the owner key of entry n.
func (s *Session) OwnerKey(n int64) []byte { return []byte(keys.OwnerKey(s.own.key, n)) }

// PutsOwnerKey records that the owner key of entry n is about to be put. That key is removed with the
// entry.
func (s *Session) PutsOwnerKey(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ledger.putsOwnerKey(n)
}

// Learn records what is now known of entry n. It does nothing if that no longer matters: what was
// removed stays removed.
func (s *Session) Learn(n int64, f Fact) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ledger.move(n, f, nil)
}

// GoneElsewhere is Absent for keys that we did not remove. A cancel key and an owner key that were put
// with one of them are removed in the background.
func (s *Session) GoneElsewhere(n int64) {
	s.mu.Lock()
	extras := s.ledger.entries[n].extras()
	s.mu.Unlock()
	if extras > 0 {
		s.leaveNow(n)
		return
	}
	s.Learn(n, Absent)
}

// Adopt records that own, the keys of entry n, are being resumed. It returns false if they must not be,
// because the session's predecessor did not leave them, or because they were resumed before.
func (s *Session) Adopt(n int64, own ...string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ledger.move(n, resumed, own)
}

// Discard has own removed in the background, not before a lock-delay after the time at unless the
// session ends earlier. own are the keys of one entry that the session's predecessor may have held, and
// that cannot be resumed. Discard returns false if they are not such keys, or were resumed.
func (s *Session) Discard(at time.Time, own ...string) bool {
	var n int64
	for i, key := range own {
		k, ok := keys.ParseQueueKey(key)
		if !ok || k.Lease != s.id || i > 0 && k.N != n {
			return false
		}
		n = k.N
	}
	if !s.Adopt(n, own...) {
		return false
	}
	if err := s.Promise(n, clock.Now().Add(time.Until(at))); err != nil {
		return true // it ends with the lease
	}
	s.Lost(n, 0)
	s.Leave(n)
	return true
}

// Alone reports whether n is the only entry of the session that had a key in the queue with this prefix
// since n began, has one, or may get one later. If so, all other keys of the lease under that prefix
// are gone for good, because no key name is used twice (rule A1). It is always false for a session that
// was taken over, which does not know what its predecessor left.
//
// If it is true both before n's enqueue is sent and after it was answered, no other key of this
// session was before n's: the enqueue of an entry that begins later is sent after that answer.
func (s *Session) Alone(n int64, prefix string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ledger.alone(n, prefix)
}
