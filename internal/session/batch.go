package session

import (
	"cmp"
	"slices"
	"time"

	"github.com/pawl-locks/pawl/internal/cluster"
)

// Sessions of one client whose renewals are due at about the same time share a
// batch: their renewals follow one another on one stream, and one read confirms
// them all. A batch is an addition to what each session does, never a part of it:
// it is sent before the first of its renewals is due, each session counts from when
// its own was sent, and one that it has not renewed renews alone, no later than
// if there had been no batch (rules N3, N4).
const (
	// maxBatch is how many renewals a batch has at most: each takes an operation of
	// the read.
	maxBatch = maxOps + 1
	// minBatch: one renewal is no batch.
	minBatch = 2
	// maxBatchKeys is how many keys a session in a batch may have read; one with more
	// gains nothing from it.
	maxBatchKeys = 16
	// apartRounds is for how many rounds a session that had trouble when it was alone
	// renews alone, each at the first try, before it joins a batch again.
	apartRounds = 4
)

// A candidate is a session's next renewal, which may share a batch. Its Renewals
// guards it.
type candidate struct {
	renewer *renewer
	state   candidacy
	due     time.Time // when it is made alone
	ttl     time.Duration
	last    *cluster.Member // that confirmed the session's last renewal; nil: none did
	keys    int             // that are read of it, its session key included
	at      int             // in waiting
}

type candidacy uint8

const (
	idle    candidacy = iota
	waiting           // for a batch
	sent              // in one that was sent; its result has not been received
)

// earliest is when a batch may be sent with it: a little too soon costs nothing but
// the renewals that it makes more.
func (c *candidate) earliest() time.Time { return c.due.Add(-c.ttl / 10) }

// latest is when a batch is sent for its sake: half of what is left until it is due is for the
// renewals, the rest for the read.
func (c *candidate) latest() time.Time { return c.due.Add(-c.ttl / 20) }

// tooLate reports whether less than half of the time from latest on is left: a batch
// with it would have no time for the answers, those to its other renewals included.
func (c *candidate) tooLate(now time.Time) bool { return now.After(c.due.Add(-c.ttl / 40)) }

// A batch is the renewals that go to one member together.
type batch struct {
	member     *cluster.Member
	candidates []*candidate
}

// due is when the first of its renewals is due.
func (b *batch) due() time.Time {
	return slices.MinFunc(b.candidates, byDue).due
}

func byDue(a, b *candidate) int { return a.due.Compare(b.due) }

// A batcher decides which renewals share a batch, and when it is sent. It is pure.
//
// Invariant: at is where each waiting candidate stands in waiting.
type batcher struct {
	waiting []*candidate
	fit     map[*cluster.Member]int // how many renewals the member answers in time; none: maxBatch
	maxOps  int                     // of a read; 0: maxBatch
}

func (b *batcher) add(c *candidate) {
	c.state, c.at = waiting, len(b.waiting)
	b.waiting = append(b.waiting, c)
}

// remove takes c out, if it waits.
func (b *batcher) remove(c *candidate) {
	if c.state != waiting {
		return
	}
	end := len(b.waiting) - 1
	moved := b.waiting[end]
	b.waiting[c.at], moved.at = moved, c.at
	b.waiting[end] = nil
	b.waiting = b.waiting[:end]
	c.state = idle
}

// next is when a batch is to be sent; the zero Time: nothing waits.
func (b *batcher) next() (at time.Time) {
	for _, c := range b.waiting {
		if l := c.latest(); at.IsZero() || l.Before(at) {
			at = l
		}
	}
	return at
}

// take takes out the candidates whose time has come at now, the first due first. What
// is due already, or too soon, is left to be made alone.
func (b *batcher) take(now time.Time) (all []*candidate) {
	rest := b.waiting[:0]
	for _, c := range b.waiting {
		switch {
		case c.tooLate(now):
			c.state = idle
		case !c.earliest().After(now):
			c.state = sent
			all = append(all, c)
		default:
			c.at = len(rest)
			rest = append(rest, c)
		}
	}
	clear(b.waiting[len(rest):])
	b.waiting = rest
	slices.SortStableFunc(all, byDue)
	return all
}

// split makes batches of candidates. Each goes to another member than the one that confirmed its
// last renewal, or to the one that pick returns instead (rule N1), so that most go
// to one. Those that find no company, or read too many keys, are in none.
func (b *batcher) split(all []*candidate, pick func(last *cluster.Member) *cluster.Member) (batches []batch) {
	var open, full []*filling
	for _, c := range all {
		c.state = idle
		if c.keys > maxBatchKeys {
			continue
		}
		i := slices.IndexFunc(open, func(f *filling) bool { return f.member != c.last })
		if i < 0 {
			m := pick(c.last)
			if i = slices.IndexFunc(open, func(f *filling) bool { return f.member == m }); i < 0 {
				i, open = len(open), append(open, &filling{batch: batch{member: m}})
			}
		}
		f := open[i]
		if len(f.candidates) >= b.fits(f.member) || f.keys+c.keys > b.ops() {
			full = append(full, f)
			f = &filling{batch: batch{member: f.member}}
			open[i] = f
		}
		f.candidates = append(f.candidates, c)
		f.keys += c.keys
	}
	for _, f := range append(full, open...) {
		if len(f.candidates) < minBatch {
			continue
		}
		for _, c := range f.candidates {
			c.state = sent
		}
		batches = append(batches, f.batch)
	}
	return batches
}

// A filling is a batch that is being filled.
type filling struct {
	batch
	keys int
}

func (b *batcher) ops() int { return cmp.Or(b.maxOps, maxBatch) }

// fits is how many renewals go to m in one batch. A member that is not the leader
// forwards them one after the other.
func (b *batcher) fits(m *cluster.Member) int { return cmp.Or(b.fit[m], maxBatch) }

// answered notes that m has answered n of a batch's renewals in time. Where that is
// none, fewer would not have helped.
func (b *batcher) answered(m *cluster.Member, n, of int) {
	if b.fit == nil {
		b.fit = make(map[*cluster.Member]int)
	}
	switch {
	case n == 0:
	case n < of:
		b.fit[m] = max(n, minBatch)
	case of >= b.fits(m):
		b.fit[m] = min(2*of, maxBatch)
	}
}

// refused notes that a read of so many operations was too long. Several that were under way
// together are refused for one reason.
func (b *batcher) refused(ops int) { b.maxOps = max(min(b.ops(), ops/2), minBatch) }
