package session

import (
	"fmt"
	"time"

	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/queue/state"
)

// Join registers e, of which d is the acquisition, before anything of it is sent. d learns of the session's
// end until e has ended. If the session has ended, Join returns the reason. Begin joins too, so only who sends
// something before has to call Join.
func (s *Session) Join(e *Entry, d Dependent) error {
	return s.whileValid(func() error {
		s.roster.add(e, d, false)
		return nil
	})
}

// Begin gives e, of which d is the acquisition, a new number, and a key at each of specs, which have different
// names. No key name is ever used again (rule A1). d learns of the session's end until e has ended. A Handle
// lists the entry, to be removed, until none of its keys can exist, but not while it is held. ownerKey says
// that the owner key of e is about to be put, and is removed with the entry. alone is Alone at the first of
// specs. If the session has ended, Begin returns the reason.
func (s *Session) Begin(e *Entry, d Dependent, ownerKey bool, specs ...keys.Spec) (own []string, alone bool, err error) {
	err = s.whileValid(func() error {
		if e.in == nil {
			s.roster.add(e, d, false)
		}
		own = s.book.begin(e, s.id, specs...)
		e.ownerKey = ownerKey
		s.Step(e, state.Begun{})
		alone = s.Alone(e, specs[0].Prefix)
		return nil
	})
	return own, alone, err
}

// Add gives e, which is about to take a slot, another key in the same queue. It is called before that key
// may be put. Once it has returned, a removal of the entry, and a Handle, cover both keys. cancels says that
// the cancel key, which did not settle the entry's enqueue, is put and removed together with the new key. If
// the session or the entry has ended, Add returns the reason.
func (s *Session) Add(e *Entry, key string, cancels bool) error {
	return s.whileValid(func() error {
		if !s.book.add(e, key, cancels) {
			return fmt.Errorf("entry %d is not there", e.number)
		}
		return nil
	})
}

// CancelKey is the cancel key of entry n: while it exists, no late copy of the entry's enqueue
// can be applied (rule A5).
func (s *Session) CancelKey(n int64) []byte { return keys.CancelKey(s.own.key, n) }

// OwnerKey is the owner key of entry n.
func (s *Session) OwnerKey(n int64) []byte { return []byte(keys.OwnerKey(s.own.key, n)) }

// PutsOwnerKey records that the owner key of e, which was adopted, may have been put. That key is removed with
// the entry.
func (s *Session) PutsOwnerKey(e *Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.ownerKey = true
}

// Absent records that none of the keys of e exists or will exist, because they were removed.
func (s *Session) Absent(e *Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.absent(e)
}

// Adopt makes e the entry n, which the session's predecessor held, in the state m. own are its keys, and d is
// its acquisition. It returns false if they must not be resumed, because the predecessor did not leave them,
// or because they were resumed before. If the session has ended, it returns the reason. Its caller has just
// called Err (rule T3).
func (s *Session) Adopt(e *Entry, d Dependent, m state.Machine, n int64, own ...string) (ok bool, err error) {
	err = s.unlessEnded(func() error {
		if ok = s.book.mayAdopt(n); ok {
			s.book.adopt(e, n, own)
			e.Machine = m
			if d != nil {
				s.roster.add(e, d, true)
				s.book.resumed()
			}
		}
		return nil
	})
	return ok, err
}

// Discard has own removed in the background, not before a lock-delay after the time at unless the
// session ends earlier. own are the keys of one entry that the session's predecessor may have held, and
// that cannot be resumed. Somebody may believe until at that they are held. Discard returns false if they are
// not such keys, or were resumed.
func (s *Session) Discard(at time.Time, own ...string) bool {
	var n int64
	for i, key := range own {
		k, ok := keys.ParseQueueKey(key)
		if !ok || k.Lease != s.id || i > 0 && k.N != n {
			return false
		}
		n = k.N
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.book.mayAdopt(n) {
		return false
	}
	e := &Entry{Machine: state.Left(true)}
	s.book.adopt(e, n, own)
	now := clock.Now()
	k := e.keep()
	k.Ended, k.Promised = now, now.Add(time.Until(at))
	s.removeKept(e)
	return true
}

// Alone reports whether e is the only entry of the session that had a key in the queue with this prefix
// since e began, has one, or may get one later. If so, all other keys of the lease under that prefix
// are gone for good, because no key name is used twice (rule A1). It is always false for a session that
// was taken over, which does not know what its predecessor left.
//
// If it is true both before e's enqueue is sent and after it was answered, no other key of this
// session was before e's: the enqueue of an entry that begins later is sent after that answer. The caller
// holds the mutex.
func (s *Session) Alone(e *Entry, prefix string) bool { return s.book.alone(e, prefix) }
