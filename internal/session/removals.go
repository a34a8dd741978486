package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pawl-locks/pawl/internal/backoff"
	"github.com/pawl-locks/pawl/internal/cluster"
)

// A Removal is what a release may have left in etcd, and has an outcome of its
// own.
type Removal interface {
	// Remove tries once and reports whether nothing is left. It returns when
	// ctx ends.
	Remove(ctx context.Context) bool
}

// removals are what is to be removed at the server in the background: entries of
// the ledger, which travel together, and Removals. Its session guards it.
type removals struct {
	pending []*removal
	lanes   lanes
	added   chan struct{} // wakes the work
	idle    chan struct{} // closed when the work ends; nil: there is none
}

// A removal is tried until it is done, each time after a wait of its own, so that
// one that fails holds up no other.
type removal struct {
	n     int64   // of the entry; 0: other
	other Removal // nil: an entry
	tries int
	wait  backoff.Backoff
	due   time.Time
	alone bool // refused together with others
}

// lanes are how many requests of each kind are under way.
type lanes struct{ entries, others int }

// The bounds of lanes: what comes up while entries are under way gathers and goes
// together, on the second lane where the first hangs.
const (
	entryLanes = 2
	otherLanes = 8
)

// How long one try of a removal may take: short, so that a member which says
// nothing, or an answer that was lost, holds up little, and now and then as long
// as a slow cluster needs.
const (
	removalTry     = 400 * time.Millisecond
	removalLongTry = 4 * time.Second
	longTryEvery   = 4
	maxRemovalWait = 500 * time.Millisecond
)

func (r *removals) add(x *removal) {
	x.wait = backoff.Backoff{First: minWait, Most: maxRemovalWait}
	r.pending = append(r.pending, x)
	select {
	case r.added <- struct{}{}:
	default:
	}
}

// take takes what is due at now and may go in one request of at most most
// operations: entries, or one Removal. ops is how many operations an entry needs;
// 0: it is gone, and forgotten. next is when something is due if nothing is now;
// the zero Time: not before something else happens.
func (r *removals) take(now time.Time, most int, ops func(n int64) int) (batch []*removal, next time.Time) {
	full := 0
	r.pending = slices.DeleteFunc(r.pending, func(x *removal) bool {
		need := 0
		if x.other == nil {
			if need = ops(x.n); need == 0 {
				return true
			}
		}
		switch {
		case len(batch) > 0 && (x.other != nil || x.alone || full+need > most), !r.lanes.free(x):
			return false
		case x.due.After(now):
			if next.IsZero() || x.due.Before(next) {
				next = x.due
			}
			return false
		}
		batch = append(batch, x)
		if full += need; x.other != nil || x.alone {
			full = most // nothing beside it
		}
		return true
	})
	if len(batch) > 0 {
		r.lanes.use(batch[0], 1)
	}
	return batch, next
}

func (l *lanes) free(x *removal) bool {
	if x.other != nil {
		return l.others < otherLanes
	}
	return l.entries < entryLanes
}

func (l *lanes) use(x *removal, n int) {
	if x.other != nil {
		l.others += n
		return
	}
	l.entries += n
}

func (l lanes) busy() bool { return l != lanes{} }

// bound is how long the next try of a batch may take.
func bound(batch []*removal) time.Duration {
	if slices.ContainsFunc(batch, func(x *removal) bool { return x.tries%longTryEvery != longTryEvery-1 }) {
		return removalTry
	}
	return removalLongTry
}

// again puts a batch back that was not removed because of err. One that was
// refused for what it holds is tried in parts, and at once: in smaller ones where
// it was for their number, and else each alone from now on.
func (r *removals) again(batch []*removal, now time.Time, err error) {
	parts := len(batch) > 1
	for _, x := range batch {
		switch {
		case parts && cluster.IsTooManyOps(err):
			x.due = now
		case parts && (cluster.IsPermissionDenied(err) || cluster.IsTooLarge(err)):
			x.alone, x.due = true, now
		default:
			x.tries++
			x.due = now.Add(x.wait.Next())
		}
	}
	r.pending = append(r.pending, batch...)
}

// RemoveInBackground has r removed, again and again until it is done or the
// session is over, for then the lease takes it along.
func (s *Session) RemoveInBackground(r Removal) { s.remove(&removal{other: r}) }

// Leave has entry n removed in the background: whether its enqueue was applied,
// was not, or may be later (rules A5, A6). An entry that is gone stays so.
func (s *Session) Leave(n int64) { s.LeaveAt(n, time.Time{}) }

// LeaveAt is Leave that begins at the time at; the session's end comes first.
func (s *Session) LeaveAt(n int64, at time.Time) {
	s.mu.Lock()
	s.ledger.move(n, unwanted, nil)
	s.mu.Unlock()
	s.remove(&removal{n: n, due: at})
}

// remove adds xs to the work, and returns what is closed when that ends; nil: the
// session or the client is over, and nothing is removed.
func (s *Session) remove(xs ...*removal) (idle <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over.Load() != nil {
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

// beginRemovals begins the work, unless the client is closed; s.mu is held.
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

// errLeft is why a Removal is tried again.
var errLeft = errors.New("something is left")

// removeAll works on the removals until there is none, ctx ends or the session
// does.
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
			s.removals.lanes.use(t.batch[0], -1)
			if t.err != nil {
				s.removals.again(t.batch, time.Now(), t.err)
			}
			s.mu.Unlock()
		case <-s.removals.added:
		case <-timer.C:
		case <-ended:
			ended = nil // what is under way returns
		}
	}
}

// startRemovals starts what is due and sets timer to when more is. false: there
// is nothing left to do, or to wait for.
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
	ctx, cancel := context.WithTimeout(ctx, bound(batch))
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
