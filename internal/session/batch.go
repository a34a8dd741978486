package session

import (
	"cmp"
	"slices"
	"time"

	"github.com/pawl-locks/pawl/internal/cluster"
)

// Sessions of one client whose renewals are due at about the same time share a batch: their
// renewals are sent one after the other on one stream, and one read confirms them all. A batch
// is an addition to what each session does, and no session depends on it: it is sent before the
// first of its renewals is due, each session counts validity from when its own renewal was
// sent, and a session that the batch has not renewed renews alone, no later than without a
// batch (rules N3, N4).
const (
	// maxBatch is how many renewals a batch has at most: each takes one operation of the read.
	maxBatch = maxOps + 1
	// minBatch: one renewal is no batch.
	minBatch = 2
	// maxBatchKeys is how many keys may be read for a session in a batch; a session with more
	// gains nothing from a batch.
	maxBatchKeys = 16
	// unbatchedRounds is how many rounds a session that failed on its own renews alone, each with
	// the first renewal, before it joins a batch again.
	unbatchedRounds = 4
)

// A candidate is a session's next renewal, which may share a batch. Its Renewals
// guards it.
type candidate struct {
	renewer *renewer
	state   candidacy
	due     time.Time // when it is renewed alone
	ttl     time.Duration
	last    *cluster.Member // the member that confirmed the session's last renewal; nil: none did
	keys    int             // how many keys are read for it, its session key included
	at      int             // its index in waiting
}

type candidacy uint8

const (
	idle    candidacy = iota
	waiting           // for a batch
	sent              // in a batch that was sent; its result has not been received
)

// earliest is when a batch may be sent with it. A little too early only costs more renewals.
func (c *candidate) earliest() time.Time { return c.due.Add(-c.ttl / 10) }

// latest is when a batch has to be sent for it: half of the time from then until it is due is
// for the renewals, the rest for the read.
func (c *candidate) latest() time.Time { return c.due.Add(-c.ttl / 20) }

// tooLate reports whether less than half of the time that begins at latest is left: a batch
// with it would not leave enough time for any of its answers.
func (c *candidate) tooLate(now time.Time) bool { return now.After(c.due.Add(-c.ttl / 40)) }

// A batch is a group of renewals that are sent to one member.
type batch struct {
	member     *cluster.Member
	candidates []*candidate
}

// due is when the first of its renewals is due on its own.
func (b *batch) due() time.Time {
	return slices.MinFunc(b.candidates, byDue).due
}

func byDue(a, b *candidate) int { return a.due.Compare(b.due) }

// A batcher decides which renewals share a batch, and when it is sent. It is pure.
//
// Invariant: at is the index of each waiting candidate in waiting.
type batcher struct {
	waiting []*candidate
	fit     map[*cluster.Member]int // how many renewals the member answers in time; no entry: maxBatch
	maxOps  int                     // of a read; 0: maxBatch
}

func (b *batcher) add(c *candidate) {
	c.state, c.at = waiting, len(b.waiting)
	b.waiting = append(b.waiting, c)
}

// remove removes c if it is waiting.
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

// next is when to send a batch; the zero Time: nothing waits.
func (b *batcher) next() (at time.Time) {
	for _, c := range b.waiting {
		if l := c.latest(); at.IsZero() || l.Before(at) {
			at = l
		}
	}
	return at
}

// take removes and returns the candidates to be sent at now, the first due first. It removes,
// but does not return, those whose due time has passed or is too near for a batch: they renew alone.
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

// split makes batches of candidates. Each is sent to another member than the one that confirmed
// its last renewal, chosen by pick (rule N1), so that most share one member. Those that are the
// only one for a member, or that read too many keys, are in no batch.
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

// A filling is a batch that candidates are being added to.
type filling struct {
	batch
	keys int
}

func (b *batcher) ops() int { return cmp.Or(b.maxOps, maxBatch) }

// fits is how many renewals are sent to m in one batch. A follower forwards them to the leader
// one after the other, and so may be slow.
func (b *batcher) fits(m *cluster.Member) int { return cmp.Or(b.fit[m], maxBatch) }

// answered records that m answered n of a batch's renewals in time. If it answered none, a
// smaller batch would not have helped.
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

// refused records that a read of ops operations was too long. Several reads under way at once
// may be refused for one reason.
func (b *batcher) refused(ops int) { b.maxOps = max(min(b.ops(), ops/2), minBatch) }
