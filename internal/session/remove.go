package session

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// RemoveInBackground has r removed, and tries again until it is done or the session has ended,
// because then its keys end with the lease.
func (s *Session) RemoveInBackground(r Removal) { s.remove(&removal{other: r}) }

// Leave has entry n removed in the background, whether its enqueue was applied, was not, or may
// be later (rules A5, A6). It does nothing for an entry that is gone.
func (s *Session) Leave(n int64) { s.LeaveAt(n, time.Time{}) }

// LeaveAt is Leave, not before the time at unless the session ends earlier. An entry that was
// held, and not released, also stays for the lock-delay from now on (rule LD2).
func (s *Session) LeaveAt(n int64, at time.Time) {
	s.mu.Lock()
	s.ledger.move(n, unwanted, nil)
	if s.ledger.state(n) == lost {
		if kept := time.Now().Add(s.validity.delay); at.Before(kept) {
			at = kept
		}
	}
	s.mu.Unlock()
	s.remove(&removal{n: n, due: at})
}

// remove adds xs to the removals, and returns a channel that is closed when removeAll returns;
// nil: the session or the client has ended, and nothing is removed.
func (s *Session) remove(xs ...*removal) (idle <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended.Load() != nil {
		return nil
	}
	for _, x := range xs {
		s.removals.add(x)
	}
	if s.removals.idle == nil {
		s.beginRemovals()
	}
	return s.removals.idle
}

// beginRemovals starts removeAll, unless the client is closed; s.mu is held.
func (s *Session) beginRemovals() {
	idle := make(chan struct{})
	if s.host.Cleanup.Go(fmt.Sprintf("keys of lease %x", s.id), func(ctx context.Context) { s.removeAll(ctx, idle) }) {
		s.removals.idle = idle
	}
}

// tried is a batch of removals after a try.
type tried struct {
	batch []*removal
	err   error // nil: nothing is left
}

// errLeft makes tried try a Removal again.
var errLeft = errors.New("something is left")

// removeAll carries out the removals until none is left, or ctx or the session ends.
func (s *Session) removeAll(ctx context.Context, idle chan struct{}) {
	defer close(idle)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	results := make(chan tried)
	timer := time.NewTimer(0)
	defer timer.Stop()
	ended := ctx.Done()
	for s.startRemovals(ctx, results, timer) {
		select {
		case t := <-results:
			s.mu.Lock()
			s.removals.tried(t.batch, time.Now(), t.err)
			s.mu.Unlock()
		case <-s.removals.added:
		case <-timer.C:
		case <-ended:
			ended = nil // the tries under way return
		}
	}
}

// startRemovals starts the removals that are due and sets timer to when the next is. false:
// nothing is left to do or to wait for.
func (s *Session) startRemovals(ctx context.Context, results chan<- tried, timer *time.Timer) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for ctx.Err() == nil {
		batch, next := s.removals.take(time.Now(), s.maxOps, s.ledger.removalOps)
		if len(batch) > 0 {
			go func() { results <- s.tryRemoval(ctx, batch) }() // bounded; removeAll waits for it
			continue
		}
		if !next.IsZero() {
			timer.Reset(time.Until(next))
		}
		break
	}
	if s.removals.lanes.busy() || len(s.removals.pending) > 0 && ctx.Err() == nil {
		return true
	}
	s.removals.idle = nil
	return false
}

// tryRemoval tries batch once.
func (s *Session) tryRemoval(ctx context.Context, batch []*removal) tried {
	ctx, cancel := context.WithTimeout(ctx, batch[0].bound())
	defer cancel()
	if other := batch[0].other; other != nil {
		if !other.Remove(ctx) {
			return tried{batch, errLeft}
		}
		return tried{batch: batch}
	}
	ns := make([]int64, len(batch))
	for i, x := range batch {
		ns[i] = x.n
	}
	return tried{batch, s.removeEntries(ctx, ns)}
}
