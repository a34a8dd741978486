package top

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pawl-locks/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-locks/pawl/internal/inspect"
)

// A board is the content of pawl top: the current queues, and what was observed of each name since
// it began. It is pure. One goroutine uses it, except for shown.
type board struct {
	snapshot *inspect.Snapshot
	leases   map[int64]inspect.Lease
	seen     map[string]*tally // by the prefix of the queue's keys
	by       order
	down     bool   // in the opposite order
	busy     bool   // only names that somebody holds
	filter   string // only rows that contain each of its words

	// shown are the leases of the rows that were last drawn, the only ones that are queried. With
	// thousands of rows, querying all would take thousands of requests each time.
	shown atomic.Pointer[[]int64]
}

// maxTallies bounds the names without holders and waiters that are remembered.
const maxTallies = 2000

// A tally is what was observed of one name.
type tally struct {
	name        string
	kind        string
	taken, lost int
	held, waits sum
	last        time.Time
}

// sum is a sum of known durations.
type sum struct {
	total time.Duration
	n     int
}

func (s *sum) add(d time.Duration) {
	if d >= 0 {
		s.total += d
		s.n++
	}
}

func (s sum) mean() time.Duration {
	if s.n == 0 {
		return -1
	}
	return s.total / time.Duration(s.n)
}

// An order is what the rows are sorted by.
type order int

const (
	byName order = iota
	byHeld
	byWaiters
	byWait
	byTaken
	byLost
)

// orders are their names, for --sort.
var orders = []string{"name", "held", "waiters", "wait", "taken", "lost"}

func orderNamed(name string) (order, bool) {
	i := slices.Index(orders, name)
	return order(i), i >= 0
}

func newBoard(by order) *board {
	return &board{snapshot: &inspect.Snapshot{}, seen: map[string]*tally{}, by: by}
}

// take processes a new state and its events.
func (b *board) take(s *inspect.Snapshot, events []inspect.Event) {
	b.snapshot = s
	for _, e := range events {
		t := b.seen[e.Prefix]
		if t == nil {
			b.forget()
			t = &tally{}
			b.seen[e.Prefix] = t
		}
		t.name, t.kind, t.last = e.Name, e.Position.Kind(), e.Time
		switch e.Kind {
		case inspect.Acquired:
			t.taken++
			t.waits.add(e.Waited)
		case inspect.Lost:
			t.lost++
			t.held.add(e.Held)
		case inspect.Released, inspect.Ended:
			t.held.add(e.Held)
		}
	}
}

// forget removes the name that was quiet for longest.
func (b *board) forget() {
	if len(b.seen) < maxTallies {
		return
	}
	oldest := ""
	for k, t := range b.seen {
		if oldest == "" || t.last.Before(b.seen[oldest].last) {
			oldest = k
		}
	}
	delete(b.seen, oldest)
}

// A topRow is a row of the board.
type topRow struct {
	prefix             string // of the name's keys
	name, kind         string
	holder, host       string
	others             string        // owners and hosts of all holders, for the filter
	token, lease       int64         // of the first holder; 0 if nobody holds, or without a lease
	held, wait         time.Duration // the longest of a holder, of a waiter; below 0 if unknown, or none
	heldAtMost         bool          // held is an upper bound
	waiters            int
	taken, lost        int
	meanHeld, meanWait time.Duration
	left               string
}

// rows returns the board's rows at now, in its order.
func (b *board) rows(now time.Time) (rows []topRow) {
	free := maps.Clone(b.seen)
	for _, l := range b.snapshot.Queues {
		t := b.seen[l.Prefix]
		if t == nil {
			t = &tally{}
		}
		delete(free, l.Prefix)
		rows = append(rows, b.heldRow(l, t, now))
	}
	if !b.busy {
		for prefix, t := range free {
			r := topRow{prefix: prefix, name: t.name, kind: t.kind, holder: "-", held: -1, wait: -1}
			rows = append(rows, r.with(t))
		}
	}
	rows = slices.DeleteFunc(rows, func(r topRow) bool { return !r.fits(b.filter) })
	slices.SortFunc(rows, b.compare)
	return rows
}

// fits reports whether name, holder and host contain each word of a filter, ignoring case.
func (r topRow) fits(filter string) bool {
	text := strings.ToLower(r.name + "\n" + r.holder + "\n" + r.host + r.others)
	for word := range strings.FieldsSeq(strings.ToLower(filter)) {
		if !strings.Contains(text, word) {
			return false
		}
	}
	return true
}

func (b *board) heldRow(l inspect.NamedQueue, t *tally, now time.Time) topRow {
	r := topRow{
		prefix: l.Prefix, name: l.Name, kind: l.Kind(), holder: cli.OrNone(cli.Holding(l)), held: -1, wait: -1, waiters: len(l.Waiters()),
	}
	if p, ok := l.Holder(); ok {
		r.host, r.token, r.lease, r.left = p.Host, int64(p.Token), p.Lease, cli.Left(b.leases, p)
	}
	for _, p := range l.Holders() {
		r.others += "\n" + p.Owner + "\n" + p.Host
		if d, atMost := heldFor(p, now); d > r.held {
			r.held, r.heldAtMost = d, atMost
		}
	}
	for _, w := range l.Waiters() {
		came := w.Observed
		if came.IsZero() && !w.Election {
			came = w.Since
		}
		if !came.IsZero() {
			r.wait = max(r.wait, now.Sub(came))
		}
	}
	return r.with(t)
}

// heldFor is how long a position has been held, or below 0 if that is not known. atMost means that
// it may be less.
func heldFor(p inspect.Position, now time.Time) (d time.Duration, atMost bool) {
	switch {
	case !p.HeldSince.IsZero():
		return now.Sub(p.HeldSince), false
	case !p.Since.IsZero():
		return max(0, now.Sub(p.Since)), true
	}
	return -1, false
}

func (r topRow) with(t *tally) topRow {
	r.taken, r.lost, r.meanHeld, r.meanWait = t.taken, t.lost, t.held.mean(), t.waits.mean()
	return r
}

// compare orders the greatest first, and names alphabetically. down reverses that.
func (b *board) compare(x, y topRow) int {
	var c int
	switch b.by {
	case byHeld:
		c = cmp.Compare(y.held, x.held)
	case byWaiters:
		c = cmp.Compare(y.waiters, x.waiters)
	case byWait:
		c = cmp.Compare(y.wait, x.wait)
	case byTaken:
		c = cmp.Compare(y.taken, x.taken)
	case byLost:
		c = cmp.Compare(y.lost, x.lost)
	}
	c = cmp.Or(c, strings.Compare(x.name, y.name))
	if b.down {
		return -c
	}
	return c
}
