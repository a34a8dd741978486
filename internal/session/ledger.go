package session

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/internal/detached"
	"github.com/pawl-locks/pawl/internal/keys"
)

// A state is the state of an entry.
type state uint8

const (
	gone      state = iota // its key does not exist and never will; also any entry that is not in the ledger
	open                   // its enqueue may be applied, now or later
	answered               // its enqueue was answered or settled, so that no copy of it can be applied any more: its key may exist
	held                   // its key exists and its acquisition is held: the session's successor does not remove it
	undoing                // to be removed, while its enqueue may still be applied: its cancel key is put (rule A5)
	leaving                // to be removed by a deletion, because no copy of its enqueue can be applied any more
	lost                   // to be removed after the lock-delay, because its hold ended without a release; a deletion is enough
	inherited              // a predecessor's, which may have been held, and which this process has not resumed
)

// A Fact changes an entry's state.
type Fact uint8

const (
	Answered   Fact = iota // no copy of its enqueue can be applied any more, because the server has executed or refused it, or because it was settled; its key may exist
	won                    // it is held now
	resumed                // the predecessor held it, and this process holds it now
	Unwanted               // it has to be removed
	Unreleased             // its hold ended without a release, and it has to be removed; Leave waits for the lock-delay
	Absent                 // its key does not exist and never will
)

// moves are the states that facts lead to. A fact has no effect in a state that is not listed.
var moves = [...]map[state]state{
	Answered:   {open: answered, undoing: leaving},
	won:        {open: held, answered: held},
	resumed:    {inherited: held},
	Unwanted:   {open: undoing, answered: leaving, held: leaving},
	Unreleased: {held: lost},
	Absent:     {open: gone, answered: gone, held: gone, undoing: gone, leaving: gone, lost: gone},
}

// An entry is one acquisition's keys: one key in the queue of each of its names, or, for a
// semaphore, all keys that it may have put under its one name. They are adopted, settled and
// removed together. Keys are added to an entry, and never changed or removed.
type entry struct {
	state     state
	keys      []string
	cancelled bool // the cancel key was put with a key that was added, and is removed with it
	ownerKey  bool // an owner key may have been put with the first key, and is removed with it
	keep      Keep // from when its keys may go
}

// names yields the prefixes of the queues in which e has keys, whatever the form of the keys.
func (e entry) names() iter.Seq[string] {
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

// A ledger records a session's entries in the queues of all names. It is pure; its session
// guards it.
//
// Invariants: an entry of this process that is gone is not in entries; one of a predecessor
// stays, so that it is resumed only once. counts holds for each name the count of its entries
// that are not gone.
type ledger struct {
	next      int64 // the next entry's number
	inherited int64 // entries below it are a predecessor's; 0 if there is no predecessor
	entries   map[int64]entry
	counts    map[string]count
	takenOver clock.Instant // until when what a predecessor held, and nobody has resumed, has to stay
}

// count counts a session's entries in the queue of one name.
type count struct {
	entries int   // those that are not gone
	last    int64 // the number of the one that was begun last
}

func newLedger() ledger {
	return ledger{next: 1, entries: make(map[int64]entry), counts: make(map[string]count)}
}

// begin is Session.Begin.
func (l *ledger) begin(lease int64, specs ...keys.Spec) (n int64, own []string) {
	n = l.next
	l.next++
	own = make([]string, len(specs))
	for i, p := range specs {
		own[i] = keys.QueueKey{Lease: lease, N: n, Form: p.Form}.In(p.Prefix)
	}
	l.put(n, entry{state: open, keys: own})
	return n, own
}

// inherit adds the entries that a predecessor left, which are those below next. Those with keys in
// toRemove have to be removed. A deletion is enough, because the takeover rewrote the session key,
// which every enqueue compares (rule N6). Those in losses were held, and not released.
func (l *ledger) inherit(lease, next int64, toRemove []string, losses []int64) error {
	l.next, l.inherited = next, next
	all := make(map[int64][]string)
	for _, key := range slices.Sorted(slices.Values(toRemove)) {
		k, ok := keys.ParseQueueKey(key)
		if !ok || k.Lease != lease || k.N >= next {
			return fmt.Errorf("key %q is not of lease %x", key, lease)
		}
		all[k.N] = append(all[k.N], key)
	}
	for n, own := range all {
		st := leaving
		if slices.Contains(losses, n) {
			st = lost
		}
		l.put(n, entry{state: st, keys: own, cancelled: slices.ContainsFunc(own, isSlot)}) // a Handle does not list owner keys, which end with the lease
	}
	return nil
}

// put adds an entry that is not in the ledger.
func (l *ledger) put(n int64, e entry) {
	l.entries[n] = e
	for name := range e.names() {
		c := l.counts[name]
		l.counts[name] = count{c.entries + 1, max(c.last, n)}
	}
}

// add is Session.Add. It returns false if entry n is not in state there. A key that the entry has
// already is not added again.
func (l *ledger) add(n int64, key string, cancels bool) bool {
	e := l.entries[n]
	if e.state != answered {
		return false
	}
	if !slices.Contains(e.keys, key) {
		e.keys, e.cancelled = append(slices.Clip(e.keys), key), cancels // after the first: see undoEach
		l.entries[n] = e
	}
	return true
}

// state is the state of entry n.
func (l *ledger) state(n int64) state {
	if e, ok := l.entries[n]; ok {
		return e.state
	}
	if 0 < n && n < l.inherited {
		return inherited
	}
	return gone
}

// move changes the state of entry n by f, and returns false if f has no effect. It is the only
// function that changes an entry's state. own are the keys of a predecessor's entry that is not in the
// ledger yet.
func (l *ledger) move(n int64, f Fact, own []string) bool {
	before := l.state(n)
	after, ok := moves[f][before]
	if !ok {
		return false
	}
	if before == inherited {
		cancelled := slices.ContainsFunc(own, isSlot) // then no copy of the predecessor's enqueue can be applied any more
		l.put(n, entry{state: inherited, keys: own, cancelled: cancelled, keep: l.entries[n].keep})
	}
	e := l.entries[n]
	e.state = after
	l.entries[n] = e
	if after == gone {
		l.strike(n, e)
	}
	return true
}

// putsOwnerKey is Session.PutsOwnerKey.
func (l *ledger) putsOwnerKey(n int64) {
	if e, ok := l.entries[n]; ok {
		e.ownerKey = true
		l.entries[n] = e
	}
}

// isSlot reports whether key is the key of a semaphore's slot, which only a take puts.
func isSlot(key string) bool {
	k, ok := keys.ParseQueueKey(key)
	return ok && k.Form == keys.Slot
}

// strike removes an entry that is gone from the count, and from the ledger if it was this
// process's.
func (l *ledger) strike(n int64, e entry) {
	if n >= l.inherited {
		delete(l.entries, n)
	} else {
		e.keep = Keep{}
		l.entries[n] = e
	}
	for name := range e.names() {
		c := l.counts[name]
		if c.entries--; c.entries == 0 {
			delete(l.counts, name)
			continue
		}
		l.counts[name] = c
	}
}

// alone is Session.Alone. It counts keys of every form (rule RW5).
func (l *ledger) alone(n int64, name string) bool {
	return l.inherited == 0 && l.counts[name] == count{1, n} && l.state(n) != gone
}

// keeps returns the entries whose keys have to stay after now, in order.
func (l *ledger) keeps(now clock.Instant) (all []detached.Kept) {
	for n, e := range l.entries {
		if left := e.keep.Until.Sub(now); left > 0 {
			left = (left + time.Millisecond - 1).Truncate(time.Millisecond)
			all = append(all, detached.Kept{N: n, Left: left})
		}
	}
	slices.SortFunc(all, func(x, y detached.Kept) int { return cmp.Compare(x.N, y.N) })
	return all
}

// keepsAny reports whether something is held, or was held and not released.
func (l *ledger) keepsAny() bool {
	for _, e := range l.entries {
		if e.state == held || e.state == lost {
			return true
		}
	}
	return false
}

// losses returns the numbers of the entries that were held and not released, in order.
func (l *ledger) losses() (all []int64) {
	for n, e := range l.entries {
		if e.state == lost {
			all = append(all, n)
		}
	}
	slices.Sort(all)
	return all
}

// toRemove returns the keys that the session's successor has to remove, in order. Entries with a key
// in kept are left out.
func (l *ledger) toRemove(kept map[string]bool) (all []string) {
	for _, e := range l.entries {
		if len(kept) > 0 && slices.ContainsFunc(e.keys, func(key string) bool { return kept[key] }) {
			continue
		}
		switch e.state {
		case open, answered, undoing, leaving, lost:
			all = append(all, e.keys...)
		}
	}
	slices.Sort(all)
	return all
}
