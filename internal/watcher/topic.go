package watcher

// A topic is the subject of one creation at a server: a key, or a range of keys, and the
// subscribers to its changes. Subscribers are equal. Each has a revision of its own from which
// on it is called; some are called with deletions only. A topic is pure: it makes no calls.
//
// For every subscriber w, all events with revisions in [w.from, next) have been delivered to
// it, and none of a revision from next on. So w can subscribe only if w.from ≥ next, and a
// topic resumes at the larger of next and the lowest from: nothing is missed, and nothing is
// delivered twice.
type topic struct {
	at   links[*topic] // in its table's queue
	home *stream

	span  span
	subs  list[*Watch]
	next  int64 // the lowest revision not delivered; only creations and events move it
	state topicState
	wide  bool // its creation is for all changes; otherwise for deletions
	quiet bool // it is in its table's quiet

	id       int64 // of its creation; 0: there is none
	refusals *refusals
}

func (t *topic) links() *links[*topic] { return &t.at }

// topicState is the state of a topic.
type topicState uint8

const (
	nowhere   topicState = iota
	queued               // waits to be created
	requested            // its creation was sent and is unanswered
	living               // its creation is acknowledged
	delayed              // was refused; created again later
)

// takes reports whether w may subscribe: nothing that it waits for was delivered, and the
// creation covers, or will cover, what it waits for.
func (t *topic) takes(w *Watch) bool {
	switch t.state {
	case queued, delayed:
		return w.from >= t.next
	case requested, living:
		return w.from >= t.next && (t.wide || w.deletions)
	}
	return false
}

func (t *topic) subscribe(w *Watch) {
	w.topic = t
	t.subs.push(w)
	if t.state == living {
		w.armed.Store(true)
	}
}

func (t *topic) anyone(is func(*Watch) bool) bool {
	for w := range t.subs.all {
		if is(w) {
			return true
		}
	}
	return false
}

// begin decides what the creation that is about to be sent covers, and from which revision on:
// next.
func (t *topic) begin(id int64) {
	low := t.subs.head.from
	wide := false
	for w := range t.subs.all {
		low, wide = min(low, w.from), wide || !w.deletions
	}
	t.next, t.wide, t.id, t.state = max(t.next, low), wide, id, requested
}

// needs is the lowest revision that w waits for.
func (t *topic) needs(w *Watch) int64 { return max(t.next, w.from) }

// deliver moves next past events, which are a server's, sifted, and adds the resulting calls to
// out.
func (t *topic) deliver(events []Event, out []delivery) []delivery {
	t.next = events[len(events)-1].ModRevision + 1
	var deletions []Event // for the subscribers to them
	for w := range t.subs.all {
		mine := events
		if w.deletions {
			if deletions == nil {
				deletions = t.deletions(events)
			}
			mine = deletions
		}
		for len(mine) > 0 && mine[0].ModRevision < w.from {
			mine = mine[1:]
		}
		if len(mine) > 0 {
			out = append(out, delivery{w, Update{Events: mine, Revision: mine[len(mine)-1].ModRevision}, false})
		}
	}
	return out
}

// deletions returns the deletions among events. It is never nil.
func (t *topic) deletions(events []Event) []Event {
	if !t.wide {
		return events
	}
	out := []Event{}
	for _, ev := range events {
		if ev.Deleted {
			out = append(out, ev)
		}
	}
	return out
}

// index holds, by their first key, the topics that may be subscribed to. Of several with one
// key it holds the last.
type index map[string]*topic

// find returns the topic, with span sp, that w may subscribe to; nil: there is none.
func (ix index) find(sp span, w *Watch) *topic {
	if t := ix[sp.key]; t != nil && t.span == sp && t.takes(w) {
		return t
	}
	return nil
}

func (ix index) offer(t *topic) { ix[t.span.key] = t }

func (ix index) withdraw(t *topic) {
	if ix[t.span.key] == t {
		delete(ix, t.span.key)
	}
}
