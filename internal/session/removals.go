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
	failing pace // of entries whose keys may exist
	full    pace // of entries whose keys are deleted, and whose cancel keys wait for disk space
	lanes   lanes
	added   chan struct{} // wakes removeAll
	idle    chan struct{} // closed when removeAll returns; nil: it is not running
}

// A removal is tried until it is done. Entries that failed share a pace. A Removal, and an entry
// that was refused for its content, wait on their own, because their failure says nothing about
// others.
type removal struct {
	n     int64   // the entry's number; 0: not an entry
	other Removal // nil: it is an entry
	tries int
	wait  backoff.Backoff
	due   time.Time
	pace  *pace // nil: it waits on its own, or has not been tried
	alone bool  // sent alone, because it was refused together with others
}

// A pace is the common backoff of entries that failed. While it fails, one request at a time is
// sent for them; once that succeeds, the others follow at once. Each is for half as many as the
// one before, except those that may take long, so that one entry that makes every request fail
// does not hold up the others.
type pace struct {
	wait    backoff.Backoff
	due     time.Time // of the next request; the zero Time: it does not fail
	tries   int
	size    int  // the most entries of the next request
	running bool // a request is under way
}

// fail makes batch, which has failed, wait for the next try of p: if others wait already, with them.
func (p *pace) fail(batch []*removal, now time.Time, b backoff.Backoff) {
	for _, x := range batch {
		x.tries++
		x.pace = p
	}
	switch {
	case len(batch) == 0 || now.Before(p.due):
		return
	case p.due.IsZero():
		p.wait, p.tries, p.size = b, 0, len(batch)
	}
	p.tries++
	p.size = max(min(p.size, len(batch)/2), 1)
	p.due = now.Add(p.wait.Next())
}

// full reports whether p's next request takes no more than the n entries that it has.
func (p *pace) full(n int) bool {
	return p != nil && !p.due.IsZero() && n >= p.size && !isLong(p.tries)
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
)

// How long removals wait for disk space. What can be deleted without it is deleted.
const (
	minSpaceWait = 2 * time.Second // half of it is random
	maxSpaceWait = 30 * time.Second
)

func (r *removals) add(x *removal) {
	x.wait = backoff.Quick()
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
		case len(batch) > 0 && (x.other != nil || x.alone || full+need > most || x.pace != batch[0].pace || x.bound() != batch[0].bound()), !r.lanes.free(x, fills):
			return false
		case x.pace != nil && x.pace.running && !x.pace.due.IsZero():
			return false
		}
		if due := x.next(); due.After(now) {
			if next.IsZero() || due.Before(next) {
				next = due
			}
			return false
		}
		batch = append(batch, x)
		if full += need; x.other != nil || x.alone || x.pace.full(len(batch)) {
			full = most // no more
		}
		return true
	})
	if len(batch) > 0 {
		r.lanes.use(batch[0], 1)
		if p := batch[0].pace; p != nil {
			p.running = true
		}
	}
	return batch, next
}

// next is when x may be tried.
func (x *removal) next() time.Time {
	if x.pace != nil {
		return x.pace.due
	}
	return x.due
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
	tries := x.tries
	if x.pace != nil {
		tries = x.pace.tries
	}
	if isLong(tries) {
		return removalLongTry
	}
	return removalTry
}

// isLong reports whether the next try may take long, after so many.
func isLong(tries int) bool { return tries%longTryEvery == longTryEvery-1 }

// tried processes the result of a request for batch; a nil err: all of it is removed. What is left
// is put back. A batch that was refused because of its content is split and tried again at once:
// into smaller batches if it was too large, and otherwise each alone from now on.
func (r *removals) tried(batch []*removal, now time.Time, err error) {
	r.lanes.use(batch[0], -1)
	content := cluster.IsTooManyOps(err) || cluster.IsPermissionDenied(err) || cluster.IsTooLarge(err)
	if p := batch[0].pace; p != nil {
		if p.running = false; err == nil || content {
			*p = pace{} // the server does what it is asked
		}
	}
	if err == nil {
		return
	}
	for _, p := range []*pace{&r.failing, &r.full} {
		if p != batch[0].pace && !p.running && !slices.ContainsFunc(r.pending, func(x *removal) bool { return x.pace == p }) {
			*p = pace{} // nothing waits with it
		}
	}
	switch {
	case batch[0].other != nil, content && len(batch) == 1:
		x := batch[0]
		x.tries++
		x.pace, x.due = nil, now.Add(x.wait.Next())
	case content:
		for _, x := range batch {
			x.pace, x.due = nil, now
			x.alone = x.alone || !cluster.IsTooManyOps(err)
		}
	case !cluster.IsNoSpace(err):
		r.failing.fail(batch, now, backoff.Quick())
	default:
		r.full.fail(batch, now, backoff.Backoff{First: minSpaceWait, Most: maxSpaceWait})
	}
	r.pending = append(r.pending, batch...)
}
