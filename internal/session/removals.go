package session

import (
	"context"
	"slices"
	"time"

	"github.com/pawl-locks/pawl/internal/backoff"
	"github.com/pawl-locks/pawl/internal/cluster"
)

// A Removal deletes what a release may have left in etcd, and records its own outcome.
type Removal interface {
	// Remove tries once and reports whether nothing is left. It returns when
	// ctx ends.
	Remove(ctx context.Context) bool
}

// removals are the background deletions of a session: of the ledger's entries, which share
// requests, and of Removals. Its session guards it.
type removals struct {
	pending []*removal
	lanes   lanes
	added   chan struct{} // wakes removeAll
	idle    chan struct{} // closed when removeAll returns; nil: it is not running
}

// A removal is tried until it is done. Each waits on its own between tries, so that one that
// fails delays no other.
type removal struct {
	n     int64   // the entry's number; 0: not an entry
	other Removal // nil: it is an entry
	tries int
	wait  backoff.Backoff
	due   time.Time
	alone bool // sent alone, because it was refused together with others
}

// lanes are how many requests of each kind are under way: of entries that have not been tried,
// of those that have been, and of Removals.
type lanes struct{ fresh, tried, others int }

// The bounds of lanes. Entries that are added while a request is under way gather, and share
// the second lane if the first hangs. New ones that fill a request have nothing to gather for;
// they take no lane from those that have been tried.
const (
	entryLanes = 2
	fullLanes  = 8
	otherLanes = 8
)

// How long one try of a removal may take. Usually it is short, so that a silent member or a
// lost answer delays little; now and then it is as long as a slow cluster needs.
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

// take removes and returns what is due at now and fits in one request of at most most
// operations: entries whose next tries may take equally long, or one Removal. ops is how many
// operations an entry needs; 0: it is gone, and is dropped. next is when something is due, if
// nothing is now; the zero Time: not before another event.
func (r *removals) take(now time.Time, most int, ops func(n int64) int) (batch []*removal, next time.Time) {
	full, fills := 0, r.gathered(now, ops) >= most
	r.pending = slices.DeleteFunc(r.pending, func(x *removal) bool {
		need := 0
		if x.other == nil {
			if need = ops(x.n); need == 0 {
				return true
			}
		}
		switch {
		case len(batch) > 0 && (x.other != nil || x.alone || full+need > most || x.bound() != batch[0].bound()), !r.lanes.free(x, fills):
			return false
		case x.due.After(now):
			if next.IsZero() || x.due.Before(next) {
				next = x.due
			}
			return false
		}
		batch = append(batch, x)
		if full += need; x.other != nil || x.alone {
			full = most // it is the only one of its request
		}
		return true
	})
	if len(batch) > 0 {
		r.lanes.use(batch[0], 1)
	}
	return batch, next
}

// isNew reports whether it is an entry that has not been tried.
func (x *removal) isNew() bool { return x.other == nil && x.tries == 0 && !x.alone }

// gathered is how many operations the new entries need that are due at now.
func (r *removals) gathered(now time.Time, ops func(n int64) int) (sum int) {
	for _, x := range r.pending {
		if x.isNew() && !x.due.After(now) {
			sum += ops(x.n)
		}
	}
	return sum
}

// free reports whether a request with x may be sent. fills: enough new entries have gathered to
// fill it.
func (l *lanes) free(x *removal, fills bool) bool {
	switch {
	case x.other != nil:
		return l.others < otherLanes
	case fills && x.isNew():
		return l.fresh < fullLanes
	case x.isNew():
		return l.fresh < entryLanes
	}
	return l.tried < entryLanes
}

// use counts n more requests whose first removal is x.
func (l *lanes) use(x *removal, n int) {
	switch {
	case x.other != nil:
		l.others += n
	case x.isNew():
		l.fresh += n
	default:
		l.tried += n
	}
}

func (l lanes) busy() bool { return l != lanes{} }

// bound is how long the next try may take.
func (x *removal) bound() time.Duration {
	if x.tries%longTryEvery == longTryEvery-1 {
		return removalLongTry
	}
	return removalTry
}

// again puts back a batch that was not removed because of err. A batch that was refused because
// of its content is split and tried again at once: into smaller batches if it was too large,
// and otherwise each alone from now on.
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
