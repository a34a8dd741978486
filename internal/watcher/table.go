package watcher

import (
	"maps"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
)

// table is the topics of one stream, and what is under way for each: a pure machine. The
// server's answers, subscribers and the end of the link are its input; requests to send and
// calls to make are its output. It has no lock, no clock and no gRPC, and enumerate_test.go
// enumerates it.
//
// Every topic is in queue, in requests, in live or in later, according to its state.
type table struct {
	index index // the Hub's
	size  int   // how many topics there are

	queue    list[*topic]
	requests []request                 // the unanswered creations, in the order in which they were sent
	bytes    int                       // of requests
	live     map[int64]*topic          // by the ID on the current link
	held     map[int64][]*mvccpb.Event // events of answers whose last fragment has not arrived
	later    []postponed
	quiet    []*topic // topics that lost their last subscriber while living; some may have a new one since

	cancels []int64 // to be sent
	lastID  int64   // IDs are used once on a link
}

// request is an unanswered creation. With topic nil it is an echo.
type request struct {
	id    int64
	topic *topic
	bytes int
}

// postponed is a topic that was refused.
type postponed struct {
	topic  *topic
	until  time.Time
	denied bool
}

// delivery is a call of a subscriber's function; the last one ends it.
type delivery struct {
	w    *Watch
	u    Update
	last bool
}

func newTable(ix index) table { return table{index: ix, live: map[int64]*topic{}} }

// add adds a topic, which is in no table.
func (tb *table) add(t *topic) {
	tb.size++
	tb.enqueue(t)
}

func (tb *table) enqueue(t *topic) {
	t.state, t.id = queued, 0
	tb.queue.push(t)
}

// remove removes a topic that is in no list.
func (tb *table) remove(t *topic) {
	t.state, t.id = nowhere, 0
	tb.size--
	tb.index.withdraw(t)
}

// unsubscribe removes w from its topic. later: the topic's creation has to be cancelled,
// together with others.
func (tb *table) unsubscribe(w *Watch) (later bool) {
	t := w.topic
	t.subs.remove(w)
	if !t.subs.empty() {
		return false
	}
	switch t.state {
	case queued:
		tb.queue.remove(t)
		tb.remove(t)
	case delayed:
		tb.later = slices.DeleteFunc(tb.later, func(p postponed) bool { return p.topic == t })
		tb.remove(t)
	case living:
		if !t.quiet {
			t.quiet, tb.quiet = true, append(tb.quiet, t)
		}
		return true
	}
	return false // requested: if the creation is acknowledged, a cancel follows
}

// sweep cancels the creations of topics without subscribers.
func (tb *table) sweep() {
	for _, t := range tb.quiet {
		t.quiet = false
		if t.state == living && t.subs.empty() {
			tb.cancel(t)
			tb.remove(t)
		}
	}
	clear(tb.quiet)
	tb.quiet = tb.quiet[:0]
}

// cancel cancels a living topic's creation.
func (tb *table) cancel(t *topic) {
	tb.cancels = append(tb.cancels, t.id)
	tb.forget(t.id)
}

func (tb *table) forget(id int64) {
	delete(tb.live, id)
	delete(tb.held, id)
}

// create returns the creations to send now, which are then unanswered.
func (tb *table) create(out []*topic) []*topic {
	for t := tb.queue.head; t != nil; t = tb.queue.head {
		size := t.span.size()
		if len(tb.requests) > 0 && tb.bytes+size > maxUnanswered {
			break
		}
		tb.queue.remove(t)
		tb.lastID++
		t.begin(tb.lastID)
		tb.requests = append(tb.requests, request{tb.lastID, t, size})
		tb.bytes += size
		out = append(out, t)
	}
	return out
}

// echo returns the ID of a creation that the server must refuse.
func (tb *table) echo() int64 {
	tb.lastID++
	tb.requests = append(tb.requests, request{id: tb.lastID})
	return tb.lastID
}

// lost puts the topics of a link that ended back into the queue, in the order of their
// creation, and removes those without subscribers.
func (tb *table) lost() {
	var topics []*topic
	for _, id := range slices.Sorted(maps.Keys(tb.live)) {
		topics = append(topics, tb.live[id])
	}
	for _, a := range tb.requests {
		if a.topic != nil {
			topics = append(topics, a.topic)
		}
	}
	clear(tb.live)
	tb.requests, tb.bytes, tb.held, tb.cancels, tb.lastID = nil, 0, nil, nil, 0
	for _, t := range topics {
		if t.subs.empty() {
			tb.remove(t)
		} else {
			tb.enqueue(t)
		}
	}
}

// end ends all subscribers of t, which is in no list, with u.
func (tb *table) end(t *topic, u Update, out []delivery) []delivery {
	for w := range t.subs.all {
		t.subs.remove(w)
		out = append(out, delivery{w, u, true})
	}
	tb.remove(t)
	return out
}

// endAll ends all subscribers with u.
func (tb *table) endAll(u Update, out []delivery) []delivery {
	tb.lost()
	for _, p := range tb.later {
		tb.enqueue(p.topic)
	}
	tb.later = nil
	for t := range tb.queue.all {
		tb.queue.remove(t)
		out = tb.end(t, u, out)
	}
	return out
}

// postpone has t, which is in no list, created again at until.
func (tb *table) postpone(t *topic, until time.Time, denied bool) {
	t.state = delayed
	tb.later = append(tb.later, postponed{t, until, denied})
}

// take returns the topics whose delay has passed at now, which are then in no table, and when
// the next delay passes.
func (tb *table) take(now time.Time) (due []postponed, next time.Time) {
	tb.later = slices.DeleteFunc(tb.later, func(p postponed) bool {
		if now.Before(p.until) {
			next = sooner(next, p.until)
			return false
		}
		p.topic.state = nowhere
		tb.size--
		due = append(due, p)
		return true
	})
	return due, next
}
