package session

import (
	"context"
	"fmt"

	"github.com/pawl-locks/pawl/internal/keys"
)

// Begin opens entry n of this session, with a key at each of places, which are of
// different names. No key is ever used again (rule A1). The entry stays
// open until Settle, and is part of a Handle meanwhile unless it is held. The
// error says why the session has ended.
func (s *Session) Begin(places ...keys.Place) (n int64, own []string, err error) {
	if err := s.Err(); err != nil {
		return 0, nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.ended.Load(); e != nil {
		return 0, nil, e.err
	}
	n, own = s.ledger.begin(s.id, places...)
	return n, own, nil
}

// Add gives entry n, whose key is known to be there, another one in the same queue, before
// that may be put: a removal of the entry, and a Handle, are about both from now on. cancels: the
// cancel key, which did not settle the entry's enqueue, is put with it, and is removed with it. The error
// says why the session has ended, or that the entry is.
func (s *Session) Add(n int64, key string, cancels bool) error {
	if err := s.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.ended.Load(); e != nil {
		return e.err
	}
	if !s.ledger.add(n, key, cancels) {
		return fmt.Errorf("entry %d is not there", n)
	}
	return nil
}

// CancelKey is the cancel key of entry n: while it is there, no late copy of
// the entry's enqueue can be applied (rule A5).
func (s *Session) CancelKey(n int64) []byte { return keys.CancelKey(s.key, n) }

// OwnerKey is the owner key of entry n.
func (s *Session) OwnerKey(n int64) []byte { return []byte(keys.OwnerKey(s.key, n)) }

// Name says that the owner key of entry n may be put, before it is: it is removed with the entry.
func (s *Session) Name(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ledger.name(n)
}

// Shown says that an answer showed the key of entry n: its enqueue was applied,
// and no copy of it can be any more.
func (s *Session) Shown(n int64) { s.move(n, shown, nil) }

// Settle says that entry n came to a known end: its key is not there, and will
// not be.
func (s *Session) Settle(n int64) { s.move(n, absent, nil) }

// Vanished is Settle of keys that went without a removal of ours: a cancel key and an owner key that were
// put with one of them are removed in the background.
func (s *Session) Vanished(n int64) {
	s.mu.Lock()
	extras := s.ledger.entries[n].extras()
	s.mu.Unlock()
	if extras > 0 {
		s.Leave(n)
		return
	}
	s.Settle(n)
}

// Reopen says that the keys of entry n, which was held, have to be removed after
// all. Where that was settled meanwhile it stays so.
func (s *Session) Reopen(n int64) { s.move(n, unwanted, nil) }

// Forfeit says that the key of entry n, which was held, was held for too long. Leave has
// it removed, in a way that shows successors that it was not released.
func (s *Session) Forfeit(n int64) { s.move(n, overheld, nil) }

// Adopt says that own, the keys of entry n, are resumed, and reports whether they may
// be: they were left by the session's predecessor, and not resumed before.
func (s *Session) Adopt(n int64, own ...string) bool { return s.move(n, resumed, own) }

func (s *Session) move(n int64, ev evidence, own []string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ledger.move(n, ev, own)
}

// Alone reports whether entry n is the only one of the session's in the queue
// with this prefix that had, may have, or may yet have, a key there since n
// began. Others of its lease's keys under that prefix are gone for good then, for
// no name is used twice (rule A1). A session that was taken over does not know
// what its predecessor left, and never says so.
//
// Called before n's enqueue is sent and after it was answered, it shows that
// nothing of this session's stood before n: an entry that begins later is sent
// after that answer.
func (s *Session) Alone(n int64, prefix string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ledger.alone(n, prefix)
}

// Undo removes entry n for good: whether its enqueue was applied, was not, or
// may be later. It can be repeated.
func (s *Session) Undo(ctx context.Context, n int64) error {
	s.move(n, unwanted, nil)
	return s.removeEntries(ctx, []int64{n})
}
