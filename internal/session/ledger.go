package session

import (
	"fmt"
	"iter"
	"slices"

	"github.com/pawl-locks/pawl/internal/keys"
)

// A state is where an entry stands between its first request and its last.
type state uint8

const (
	gone    state = iota // its key is not there and never will be; what the ledger does not know is gone
	open                 // its enqueue may be applied, now or later
	there                // an answer showed its key: no copy of its enqueue can be applied any more
	held                 // there, and somebody's: the session's successor does not remove it
	undoing              // to be removed, while its enqueue may yet be applied: its cancel key is put (rule A5)
	leaving              // to be removed, and no enqueue is under way: a deletion is all
	forfeit              // to be removed, and nobody released it: its mark is put with the deletion
	left                 // a predecessor's, which it may have held: nobody here has resumed it
)

// Evidence is what moves an entry from one state to another.
type evidence uint8

const (
	shown    evidence = iota // an answer showed its key
	won                      // it is held
	resumed                  // it was held by the predecessor, and is by this process now
	unwanted                 // it is to be removed
	overheld                 // it was held for too long, and is to be removed
	absent                   // its key is not there and never will be
)

// after is the state that ev moves an entry to; false: ev is of no account in
// that state, and changes nothing.
func (st state) after(ev evidence) (state, bool) {
	switch ev {
	case shown:
		switch st {
		case open:
			return there, true
		case undoing:
			return leaving, true
		}
	case won:
		if st == open || st == there {
			return held, true
		}
	case resumed:
		if st == left {
			return held, true
		}
	case unwanted:
		switch st {
		case open:
			return undoing, true
		case there, held:
			return leaving, true
		}
	case overheld:
		if st == held {
			return forfeit, true
		}
	case absent:
		if st != gone && st != left {
			return gone, true
		}
	}
	return st, false
}

// An entry is one acquisition's part in the queues of its names: one key in each, or,
// of a semaphore's, all keys that it may have put in one. They are adopted, settled and
// removed together. No key of them changes, and none is taken out.
type entry struct {
	state state
	keys  []string
	taken bool // the cancel key was put with a key that was added, and goes with it
	named bool // an owner key may have been put with the first key, and goes with it
}

// names are the queues that e has keys in, by what their keys begin with, whatever
// their form.
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

// A ledger is the account of what a session has in the queues of all names. It
// is pure; its session guards it.
//
// Invariants: an entry of this process that is gone is not in entries; one of a
// predecessor is, so that it is resumed once. counts has, for each name, what a
// count of the entries that are not gone would find.
type ledger struct {
	next      int64 // the next entry's number
	inherited int64 // entries below it are a predecessor's; 0: none are
	entries   map[int64]entry
	counts    map[string]count
}

// count is what a session has in the queue of one name.
type count struct {
	entries int   // that are not gone
	last    int64 // the number of the last one that was begun
}

func newLedger() ledger {
	return ledger{next: 1, entries: make(map[int64]entry), counts: make(map[string]count)}
}

// begin opens an entry: its number, and its key for each of places, which are of
// different names. None was ever used before (rule A1).
func (l *ledger) begin(lease int64, places ...keys.Place) (n int64, own []string) {
	n = l.next
	l.next++
	own = make([]string, len(places))
	for i, p := range places {
		own[i] = keys.QueueKey{Lease: lease, N: n, Form: p.Form}.In(p.Prefix)
	}
	l.put(n, entry{state: open, keys: own})
	return n, own
}

// inherit takes in what a predecessor left: entries below next are its, and those
// with keys are to be undone, for their enqueues may yet be applied.
func (l *ledger) inherit(lease, next int64, unsettled []string) error {
	l.next, l.inherited = next, next
	all := make(map[int64][]string)
	for _, key := range slices.Sorted(slices.Values(unsettled)) {
		k, ok := keys.ParseQueueKey(key)
		if !ok || k.Lease != lease || k.N >= next {
			return fmt.Errorf("key %q is not of lease %x", key, lease)
		}
		all[k.N] = append(all[k.N], key)
	}
	for n, own := range all {
		l.put(n, entry{state: undoing, keys: own}) // a Handle does not say whether it is named: the lease ends an owner key
	}
	return nil
}

// put adds an entry that was not in the ledger.
func (l *ledger) put(n int64, e entry) {
	l.entries[n] = e
	for name := range e.names() {
		c := l.counts[name]
		l.counts[name] = count{c.entries + 1, max(c.last, n)}
	}
}

// add gives entry n, which is there, another key in the queue that it is in; false: it is
// not there. An entry that has the key already keeps it. cancels: the cancel key is put with
// it, and goes with it.
func (l *ledger) add(n int64, key string, cancels bool) bool {
	e := l.entries[n]
	if e.state != there {
		return false
	}
	if !slices.Contains(e.keys, key) {
		e.keys, e.taken = append(slices.Clip(e.keys), key), cancels // after the first: see undoEach
		l.entries[n] = e
	}
	return true
}

// state is that of entry n.
func (l *ledger) state(n int64) state {
	if e, ok := l.entries[n]; ok {
		return e.state
	}
	if 0 < n && n < l.inherited {
		return left
	}
	return gone
}

// move is the one way in which an entry's state changes: ev moves entry n, and
// false means that it is of no account. own are the keys of an entry which a
// predecessor left, and which the ledger does not know yet.
func (l *ledger) move(n int64, ev evidence, own []string) bool {
	before := l.state(n)
	after, ok := before.after(ev)
	if !ok {
		return false
	}
	if before == left {
		taken := slices.ContainsFunc(own, isSlot) // no copy of the predecessor's enqueue can be applied any more
		l.put(n, entry{state: left, keys: own, taken: taken})
	}
	e := l.entries[n]
	e.state = after
	l.entries[n] = e
	if after == gone {
		l.strike(n, e)
	}
	return true
}

// name says of entry n, which is there, that an owner key may be put.
func (l *ledger) name(n int64) {
	if e, ok := l.entries[n]; ok {
		e.named = true
		l.entries[n] = e
	}
}

// isSlot reports whether key is that of a semaphore's slot, which a take has put.
func isSlot(key string) bool {
	k, ok := keys.ParseQueueKey(key)
	return ok && k.Form == keys.Slot
}

// strike takes an entry that is gone out of the count, and out of the ledger if
// it was this process's.
func (l *ledger) strike(n int64, e entry) {
	if n >= l.inherited {
		delete(l.entries, n)
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

// alone reports whether entry n is the only one of the session's in the queue of
// name that had, may have, or may yet have, a key there since n began, in whatever
// form (rule RW5). A session
// that was taken over does not know what its predecessor left, and never says so.
func (l *ledger) alone(n int64, name string) bool {
	return l.inherited == 0 && l.counts[name] == count{1, n} && l.state(n) != gone
}

// unsettled are the keys that the session's successor has to undo, in
// order.
func (l *ledger) unsettled() (all []string) {
	for _, e := range l.entries {
		switch e.state {
		case open, there, undoing, leaving, forfeit:
			all = append(all, e.keys...)
		}
	}
	slices.Sort(all)
	return all
}
