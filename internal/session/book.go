package session

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"sync/atomic"
	"time"

	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/internal/detached"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/queue/state"
)

// An Entry is all that is known of one acquisition, and of the keys that it may have: one key in the queue
// of each of its names, or, for a semaphore, all keys that it may have put under its one name. They are
// adopted, settled and removed together. It is part of the acquisition. The zero Entry with a Machine is one
// that has not begun. Its session's mutex guards it, and only Session.Step changes its Machine.
type Entry struct {
	state.Machine

	number    int64    // it is in its session's book under this number, while keys of it may exist
	keys      []string // that may exist
	cancelled bool     // the cancel key was put with a key that was added, and is removed with it
	ownerKey  bool     // an owner key may have been put with the first key, and is removed with it
	keeping   *Keep    // from when its keys may go; nil while nothing keeps them

	dependent  Dependent             // its acquisition; nil for what a predecessor left
	bound      atomic.Pointer[Bound] // nil if only the session ends the hold
	ops        int                   // set by SetReads; 0 means one
	prev, next *Entry                // in the ring of the roster that it is in
	in         *ring
}

// Number is the number of the entry's keys, 0 before it has begun. It may be called without the mutex by who
// began the entry.
func (e *Entry) Number() int64 { return e.number }

// names yields the prefixes of the queues in which e has keys, whatever the form of the keys.
func (e *Entry) names() iter.Seq[string] {
	return func(yield func(string) bool) {
		last := ""
		for _, key := range e.keys {
			name, _ := keys.Split(key)
			if name != last && !yield(name) {
				return
			}
			last = name
		}
	}
}

// extras is how many cancel keys and owner keys are removed with e's keys.
func (e *Entry) extras() (n int) {
	if e.cancelled {
		n++
	}
	if e.ownerKey {
		n++
	}
	return n
}

// keep is what keeps its keys, to be changed.
func (e *Entry) keep() *Keep {
	if e.keeping == nil {
		e.keeping = &Keep{}
	}
	return e.keeping
}

// kept is what keeps its keys.
func (e *Entry) kept() Keep {
	if e.keeping == nil {
		return Keep{}
	}
	return *e.keeping
}

// lost reports whether it was held, and not released, and has to be removed.
func (e *Entry) lost() bool { return e.Phase == state.Undoing && !e.kept().Ended.IsZero() }

// removable reports whether it has to be removed.
func (e *Entry) removable() bool { return e.Phase == state.Undoing || e.Phase == state.Done }

// A book has the entries of a session of which keys may exist, in the queues of all names. It is pure; its
// session guards it.
//
// Invariants: wrong has them.
type book struct {
	next      int64 // the next entry's number
	inherited int64 // entries below it are a predecessor's; 0 if there is no predecessor
	entries   map[int64]*Entry
	unresumed int64                   // how many entries a predecessor may have held that nobody has resumed; -1 if that is not known
	over      map[int64]struct{}      // a predecessor's entries that are gone, so that each is resumed once
	owed      map[int64]clock.Instant // until when keys of a predecessor's entries that nobody has resumed have to stay, even after a release
	counts    map[string]count        // for each name, of its entries
	takenOver clock.Instant           // until when what a predecessor held, and nobody has resumed, has to stay
}

// count counts a session's entries in the queue of one name.
type count struct {
	entries int
	last    int64 // the number of the one that was begun last
}

func newBook() book {
	return book{
		next: 1, entries: make(map[int64]*Entry), counts: make(map[string]count),
		over: make(map[int64]struct{}), owed: make(map[int64]clock.Instant),
	}
}

// has reports whether keys of e may exist.
func (b *book) has(e *Entry) bool { return e.number > 0 && b.entries[e.number] == e }

// begin is Session.Begin.
func (b *book) begin(e *Entry, lease int64, specs ...keys.Spec) (own []string) {
	own = make([]string, len(specs))
	for i, p := range specs {
		own[i] = keys.QueueKey{Lease: lease, N: b.next, Form: p.Form}.In(p.Prefix)
	}
	e.number, e.keys, e.cancelled, e.ownerKey = b.next, own, false, false
	b.next++
	b.put(e)
	return own
}

// inherit adds the entries that a predecessor left, which are those below next. Those with keys in
// toRemove have to be removed. A deletion is enough, because the takeover rewrote the session key,
// which every enqueue compares (rule N6). Those in losses were held, and not released. others is how many others
// there are, or -1 if that is not known.
func (b *book) inherit(lease, next int64, toRemove []string, losses []int64, others int64) error {
	b.next, b.inherited = next, next
	all := make(map[int64][]string)
	for _, key := range slices.Sorted(slices.Values(toRemove)) {
		k, ok := keys.ParseQueueKey(key)
		if !ok || k.Lease != lease || k.N >= next {
			return fmt.Errorf("key %q is not of lease %x", key, lease)
		}
		all[k.N] = append(all[k.N], key)
	}
	for n, own := range all {
		lost := slices.Contains(losses, n)
		b.adopt(&Entry{Machine: state.Left(lost)}, n, own)
		if lost {
			b.entries[n].keep().Ended = clock.Now()
		}
	}
	b.unresumed = others
	return nil
}

// mayAdopt reports whether entry n may be what a predecessor held, and nobody has resumed.
func (b *book) mayAdopt(n int64) bool {
	_, over := b.over[n]
	return 0 < n && n < b.inherited && b.entries[n] == nil && !over
}

// adopt makes e the predecessor's entry n, which mayAdopt allows. A Handle does not list owner keys, which
// end with the lease.
func (b *book) adopt(e *Entry, n int64, own []string) {
	e.number, e.keys = n, own
	e.cancelled = slices.ContainsFunc(own, isSlot) // no copy of the predecessor's enqueue can be applied any more
	if until := b.owed[n]; !until.IsZero() {
		e.keep().Until = until
	}
	delete(b.owed, n)
	b.put(e)
}

// resumed counts an entry that a predecessor held, and that is resumed.
func (b *book) resumed() {
	if b.unresumed > 0 {
		b.unresumed--
	}
}

// put adds an entry that is not in the book.
func (b *book) put(e *Entry) {
	b.entries[e.number] = e
	for name := range e.names() {
		c := b.counts[name]
		b.counts[name] = count{c.entries + 1, max(c.last, e.number)}
	}
}

// add is Session.Add. It returns false unless e takes a slot. A key that the entry has already is not added
// again.
func (b *book) add(e *Entry, key string, cancels bool) bool {
	if !b.has(e) || e.Phase != state.Taking || e.End != state.Alive {
		return false
	}
	if !slices.Contains(e.keys, key) {
		e.keys, e.cancelled = append(slices.Clip(e.keys), key), cancels // after the first: see undoEach
	}
	return true
}

// isSlot reports whether key is the key of a semaphore's slot, which only a take puts.
func isSlot(key string) bool {
	k, ok := keys.ParseQueueKey(key)
	return ok && k.Form == keys.Slot
}

// strike removes an entry, because none of its keys exists or will exist.
func (b *book) strike(e *Entry) {
	if !b.has(e) {
		return
	}
	delete(b.entries, e.number)
	if e.number < b.inherited {
		b.over[e.number] = struct{}{}
	}
	for name := range e.names() {
		c := b.counts[name]
		if c.entries--; c.entries == 0 {
			delete(b.counts, name)
			continue
		}
		b.counts[name] = c
	}
}

// alone is Session.Alone. It counts keys of every form (rule RW5).
func (b *book) alone(e *Entry, name string) bool {
	return b.inherited == 0 && b.has(e) && b.counts[name] == count{1, e.number}
}

// keeps returns the entries whose keys have to stay after now, in order.
func (b *book) keeps(now clock.Instant) (all []detached.Kept) {
	keep := func(n int64, until clock.Instant) {
		if left := until.Sub(now); left > 0 {
			left = (left + time.Millisecond - 1).Truncate(time.Millisecond)
			all = append(all, detached.Kept{N: n, Left: left})
		}
	}
	for n, e := range b.entries {
		keep(n, e.kept().Until)
	}
	for n, until := range b.owed {
		keep(n, until)
	}
	slices.SortFunc(all, func(x, y detached.Kept) int { return cmp.Compare(x.N, y.N) })
	return all
}

// keepsAny reports whether something is held, or was held and not released.
func (b *book) keepsAny() bool {
	for _, e := range b.entries {
		if e.Phase == state.Held || e.lost() {
			return true
		}
	}
	return false
}

// losses returns the numbers of the entries that were held and not released, in order.
func (b *book) losses() (all []int64) {
	for n, e := range b.entries {
		if e.lost() {
			all = append(all, n)
		}
	}
	slices.Sort(all)
	return all
}

// toRemove returns the keys that the session's successor has to remove, in order: all but those that are
// held. Entries with a key in kept are left out. others counts what is left out, and what nobody has resumed;
// it is -1 if that is not known.
func (b *book) toRemove(kept map[string]bool) (all []string, others int64) {
	others = b.unresumed
	for _, e := range b.entries {
		switch {
		case e.Phase != state.Held && !slices.ContainsFunc(e.keys, func(key string) bool { return kept[key] }):
			all = append(all, e.keys...)
		case others >= 0:
			others++
		}
	}
	slices.Sort(all)
	return all, others
}

// keptUntil returns until when the lease of a session that ended at ended has to stay. work is when the
// work ended that deferred its revocation; zero if there was none.
func (b *book) keptUntil(delay time.Duration, ended, work clock.Instant) (until clock.Instant) {
	for _, e := range b.entries {
		k := e.kept()
		if e.Phase == state.Held || e.lost() {
			if k.Ended.IsZero() {
				k.Ended = ended
			}
			if k.WorkEnded = later(k.WorkEnded, k.Unused); k.WorkEnded.IsZero() {
				k.WorkEnded = work
			}
			at, _ := k.May(delay, true, true)
			until = later(until, at)
		}
		until = later(until, k.Promised)
	}
	if b.unresumed != 0 {
		until = later(until, b.takenOver)
	}
	return until
}
