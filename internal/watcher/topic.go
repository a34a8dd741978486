package watcher

// A topic is what one creation at a server is for: a key, or a range of keys, and those who
// subscribe to its changes. Subscribers are equal. Each has a revision of its own from which on it is
// called; some are called with deletions only. A topic is pure: it calls nobody.
//
// For every subscriber w, all events with revisions in [w.from, next) have been delivered to it, and
// none of a revision from next on. So w subscribes only where w.from ≥ next, and a topic
// resumes at the larger of next and the lowest from: nothing is missed, and nothing comes twice.
type topic struct {
	at   links[*topic] // in its table's queue
	home *stream

	span  span
	subs  list[*Watch]
	next  int64 // the lowest revision not delivered; moved by creations and by events alone
	state topicState
	wide  bool // its creation is of all changes; otherwise of deletions, with the values that were deleted
	quiet bool // it is among its table's quiet

	id       int64  // of its creation; 0: there is none
	value    []byte // that was put last, as its subscribers to deletions are to know it; nil: none is known
	refusals *refusals
}

func (t *topic) links() *links[*topic] { return &t.at }

// topicState is where a topic is.
type topicState uint8

const (
	nowhere   topicState = iota
	queued               // to be created
	requested            // its creation is sent and not answered
	living               // its creation is acknowledged
	delayed              // was refused; to be tried again
)

// takes reports whether w may subscribe: nothing that it waits for was delivered, and the creation
// is, or will be, for what it waits for.
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

// unsubscribe takes out w. A value is kept only while somebody subscribes to deletions: later ones are
// not noted then.
func (t *topic) unsubscribe(w *Watch) {
	t.subs.remove(w)
	if w.deletions && !t.anyone(func(w *Watch) bool { return w.deletions }) {
		t.value = nil
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

// begin settles what the creation that is about to be sent is for, and from which revision on: next.
func (t *topic) begin(id int64) {
	low := t.subs.head.from
	wide := false
	for w := range t.subs.all {
		low, wide = min(low, w.from), wide || !w.deletions
	}
	if low > t.next || !wide {
		t.value = nil // what is put is passed over
	}
	t.next, t.wide, t.id, t.state = max(t.next, low), wide, id, requested
}

// needs is the lowest revision that w waits for.
func (t *topic) needs(w *Watch) int64 { return max(t.next, w.from) }

// deliver moves next past events, which are what a server sent, put right, and adds the calls that
// they mean to out.
func (t *topic) deliver(events []Event, out []delivery) []delivery {
	t.next = events[len(events)-1].ModRevision + 1
	var deletions []Event // for those who subscribe to them
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

// deletions are those among events, with the values that were deleted as far as they are known, and
// notes the value that is put last. It is never nil.
func (t *topic) deletions(events []Event) []Event {
	if !t.wide {
		return events
	}
	out := []Event{}
	for _, ev := range events {
		if ev.Deleted {
			ev.Value, t.value = t.value, nil
			out = append(out, ev)
		} else {
			t.value = ev.Value
		}
	}
	return out
}

// index has, by their first key, the topics that may be subscribed to. Of several with one key it is the last.
type index map[string]*topic

// find returns the topic that w, which is of sp, may subscribe to; nil: there is none.
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
