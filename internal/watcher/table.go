package watcher

import (
	"maps"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
)

// table is the watches of one stream, and what is under way for each: a pure machine. The
// server's answers, new watches, cancels and the end of the link are its input; requests to send
// and calls to make are its output. It has no lock, no clock and no gRPC, and enumerate_test.go
// enumerates it.
//
// Every watch is in queue, in requests, in live or in later, according to its stage. Of those that
// are no longer wanted, only the ones in requests are still there.
type table struct {
	size int // how many watches there are

	queue    list
	requests []request                 // the unanswered creations, in the order in which they were sent
	bytes    int                       // of requests
	live     map[int64]*Watch          // by the ID on the current link
	held     map[int64][]*mvccpb.Event // events of answers whose last fragment has not arrived
	later    []postponed

	unwanted []int64 // creations to be cancelled, once sweep says so
	cancels  []int64 // to be sent
	lastID   int64   // IDs are used once on a link
}

// request is an unanswered creation. With watch nil it is an echo.
type request struct {
	id    int64
	watch *Watch
	bytes int
}

// postponed is a watch that was refused.
type postponed struct {
	watch  *Watch
	until  time.Time
	denied bool
}

// delivery is a call of a watch's function; the last one ends it.
type delivery struct {
	w    *Watch
	u    Update
	last bool
}

func newTable() table { return table{live: map[int64]*Watch{}} }

// add adds a watch, which is in no table.
func (tb *table) add(w *Watch) {
	tb.size++
	tb.enqueue(w)
}

func (tb *table) enqueue(w *Watch) {
	w.stage, w.id = queued, 0
	tb.queue.push(w)
}

// remove removes a watch that is in no list.
func (tb *table) remove(w *Watch) {
	w.stage, w.id = nowhere, 0
	tb.size--
}

// leave removes w, which is no longer wanted. later: its creation has to be cancelled, together
// with others.
func (tb *table) leave(w *Watch) (later bool) {
	switch w.stage {
	case queued:
		tb.queue.remove(w)
	case delayed:
		tb.later = slices.DeleteFunc(tb.later, func(p postponed) bool { return p.watch == w })
	case living:
		tb.unwanted = append(tb.unwanted, w.id)
		tb.forget(w.id)
		later = true
	default: // requested: if the creation is acknowledged, a cancel follows
		return false
	}
	tb.remove(w)
	return later
}

// sweep cancels the creations of watches that left.
func (tb *table) sweep() {
	tb.cancels = append(tb.cancels, tb.unwanted...)
	tb.unwanted = tb.unwanted[:0]
}

func (tb *table) forget(id int64) {
	delete(tb.live, id)
	delete(tb.held, id)
}

// create returns the creations to send now, which are then unanswered.
func (tb *table) create(out []*Watch) []*Watch {
	for w := tb.queue.head; w != nil; w = tb.queue.head {
		size := w.span.size()
		if len(tb.requests) > 0 && tb.bytes+size > maxUnanswered {
			break
		}
		tb.queue.remove(w)
		tb.lastID++
		w.stage, w.id = requested, tb.lastID
		tb.requests = append(tb.requests, request{tb.lastID, w, size})
		tb.bytes += size
		out = append(out, w)
	}
	return out
}

// echo returns the ID of a creation that the server must refuse.
func (tb *table) echo() int64 {
	tb.lastID++
	tb.requests = append(tb.requests, request{id: tb.lastID})
	return tb.lastID
}

// lost puts the watches of a link that ended back into the queue, in the order of their
// creation, and removes those that are no longer wanted.
func (tb *table) lost() {
	var watches []*Watch
	for _, id := range slices.Sorted(maps.Keys(tb.live)) {
		watches = append(watches, tb.live[id])
	}
	for _, a := range tb.requests {
		if a.watch != nil {
			watches = append(watches, a.watch)
		}
	}
	clear(tb.live)
	tb.requests, tb.bytes, tb.held, tb.unwanted, tb.cancels, tb.lastID = nil, 0, nil, nil, nil, 0
	for _, w := range watches {
		if w.wanted {
			tb.enqueue(w)
		} else {
			tb.remove(w)
		}
	}
}

// end ends w, which is in no list, with u.
func (tb *table) end(w *Watch, u Update, out []delivery) []delivery {
	tb.remove(w)
	return append(out, delivery{w, u, true})
}

// endAll ends all watches with u.
func (tb *table) endAll(u Update, out []delivery) []delivery {
	tb.lost()
	for _, p := range tb.later {
		tb.enqueue(p.watch)
	}
	tb.later = nil
	for w := tb.queue.head; w != nil; w = tb.queue.head {
		tb.queue.remove(w)
		out = tb.end(w, u, out)
	}
	return out
}

// postpone has w, which is in no list, created again at until.
func (tb *table) postpone(w *Watch, until time.Time, denied bool) {
	w.stage = delayed
	tb.later = append(tb.later, postponed{w, until, denied})
}

// take returns the watches whose delay has passed at now, which are then in no table, and when
// the next delay passes.
func (tb *table) take(now time.Time) (due []postponed, next time.Time) {
	tb.later = slices.DeleteFunc(tb.later, func(p postponed) bool {
		if now.Before(p.until) {
			next = sooner(next, p.until)
			return false
		}
		p.watch.stage = nowhere
		tb.size--
		due = append(due, p)
		return true
	})
	return due, next
}
