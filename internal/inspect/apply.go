package inspect

import (
	"bytes"
	"slices"
	"strconv"
	"time"

	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/watcher"
)

// A question is about the session of a key at one revision: whether its key was
// there, and what it says.
type question struct {
	lease, n int64
	rev      int64
	ended    bool // the key is gone: was there a mark of Evict?
}

// An answer to a question. The zero answer: it is not known.
type answer struct {
	known  bool
	there  bool   // the session's key
	value  []byte // of it
	broken []byte // what the mark of Evict says; nil: there is none
}

// questions are what apply needs to know about the events of one revision: of a
// candidate's key, who that is, and of one that went and was not handed on,
// whether its session had ended.
func questions(events []watcher.Event) (asked []question) {
	handed := grantsOf(events)
	for _, ev := range events {
		k, ok := keys.ParseQueueKey(ev.Key)
		switch {
		case !ok || keys.OfSessions(ev.Key):
		case ev.Deleted && !handed[ev.Key]:
			asked = append(asked, question{lease: k.Lease, n: k.N, rev: ev.ModRevision, ended: true})
		case !ev.Deleted && ev.CreateRevision == ev.ModRevision:
			if !keys.OfLock(ev.Value) {
				asked = append(asked, question{lease: k.Lease, n: k.N, rev: ev.ModRevision})
			}
		}
	}
	return asked
}

// grantsOf are the keys whose release has granted the line to the next, in events
// of one revision.
func grantsOf(events []watcher.Event) map[string]bool {
	var by map[string]bool
	for _, ev := range events {
		if granter, ok := granterOf(ev); ok {
			if by == nil {
				by = map[string]bool{}
			}
			by[granter] = true
		}
	}
	return by
}

// granterOf is the key that ev is a grant by.
func granterOf(ev watcher.Event) (key string, ok bool) {
	if ev.Deleted || ev.CreateRevision == ev.ModRevision {
		return "", false
	}
	h, ok := keys.ParseHandoff(ev.Value)
	prefix, _ := keys.Split(ev.Key)
	return prefix + string(h.By), ok
}

// A revision is the events of one revision, and what is known besides.
type revision struct {
	events  []watcher.Event
	now     time.Time
	answers map[question]answer
}

// apply takes a revision in and returns what happened by it: first the ends, then
// who came, then who holds now.
func (s *state) apply(r revision) (out []Event) {
	s.rev = r.events[0].ModRevision
	t := &turn{state: s, revision: r, handed: grantsOf(r.events), gone: map[int64]int{}, touched: map[string]bool{}}
	for _, ev := range r.events {
		if e := s.keys[ev.Key]; ev.Deleted && e != nil {
			t.gone[e.Lease]++
		}
	}
	for _, ev := range r.events {
		t.take(ev)
	}
	return t.finish()
}

// A turn is one revision being applied.
type turn struct {
	*state
	revision
	handed  map[string]bool
	gone    map[int64]int // keys that went, by lease
	came    []*entry
	touched map[string]bool
	unsure  bool // the events are the difference that a reading shows
	out     []Event
}

func (t *turn) take(ev watcher.Event) {
	e := t.keys[ev.Key]
	switch {
	case ev.Deleted && e != nil:
		cause, by := t.judge(e)
		t.leave(e, cause, by)
	case ev.Deleted:
		t.ignore(ev.Key)
	case e == nil || int64(e.Token) != ev.CreateRevision:
		if e != nil {
			t.leave(e, Unknown, "")
		}
		t.enter(ev)
	default:
		t.change(e, ev)
	}
}

// ignore notes the end of a key that was not kept.
func (t *turn) ignore(key string) {
	if f, _ := formOf(key); f == Foreign && !t.hides(key) && t.ignored > 0 {
		t.ignored--
	}
}

// judge says why e, which is gone, went.
func (t *turn) judge(e *entry) (c Cause, by string) {
	if t.handed[e.Key] {
		return HandedOn, ""
	}
	id, n := attemptOf(e.Key)
	a := t.answers[question{lease: id, n: n, rev: t.rev, ended: true}]
	switch {
	case a.broken != nil:
		return Broken, byWhom(a.broken)
	case e.Lease == 0: // nothing but a request takes it away
		return KeyDeleted, ""
	case a.known && !a.there:
		return LeaseEnded, ""
	case a.known:
		return KeyDeleted, ""
	case t.gone[e.Lease] > 1:
		return LeaseEnded, ""
	}
	return Unknown, ""
}

// attemptOf are the lease and the number in a key of pawl's form; 0: it has
// another.
func attemptOf(key string) (lease, n int64) {
	k, _ := keys.ParseQueueKey(key)
	return k.Lease, k.N
}

// leave takes e out and tells it, unless its end was told before.
func (t *turn) leave(e *entry, c Cause, by string) {
	t.touch(e.Key)
	t.tellEnd(e, c, by)
	t.remove(e)
}

func (t *turn) touch(key string) { t.above(key, func(f string) { t.touched[f] = true }) }

// tellEnd tells that e is over.
func (t *turn) tellEnd(e *entry, c Cause, by string) {
	if e.over {
		return
	}
	e.over = true
	ev, ok := t.event(e)
	if !ok {
		return
	}
	ev.Cause, ev.By = c, by
	switch held := t.folders[e.home].first == e; {
	case !held:
		ev.Kind = GaveUp
		ev.Waited = e.waited(t.now)
	case c == HandedOn, c == KeyDeleted:
		ev.Kind = Released
	case c == Unknown:
		ev.Kind = Ended
	default:
		ev.Kind = Lost
	}
	if ev.Kind != GaveUp && !e.Held.IsZero() {
		ev.Held = t.now.Sub(e.Held)
	}
	t.out = append(t.out, ev)
}

// event is an event of e; false: nothing is told of its kind.
func (t *turn) event(e *entry) (Event, bool) {
	l := t.folders[e.home]
	if e.Form == Foreign || l == nil || !l.named {
		return Event{}, false
	}
	return Event{
		Name: l.line.Name, Prefix: e.home, Election: e.Election, Place: e.Place,
		Revision: t.rev, Time: t.now, Waited: notKnown, Held: notKnown, Unsure: t.unsure,
	}, true
}

// waited is how long e waits: since it was seen to come, or since it says that it
// came.
func (e *entry) waited(now time.Time) time.Duration {
	switch {
	case !e.Seen.IsZero():
		return now.Sub(e.Seen)
	case !e.Since.IsZero() && !e.Election:
		return max(0, now.Sub(e.Since))
	}
	return notKnown
}

// enter takes a new key in.
func (t *turn) enter(ev watcher.Event) {
	p := newPlace(ev.Key, ev.Value, ev.CreateRevision, ev.ModRevision, ev.Lease)
	p.Seen = t.now
	id, n := attemptOf(p.Key)
	if a := t.answers[question{lease: id, n: n, rev: t.rev}]; p.Election && a.there {
		p.sign(a.value)
	}
	if e := t.add(p); e != nil {
		t.came = append(t.came, e)
		t.touch(e.Key)
	}
}

// change takes in a put on a key that is there: a grant, a candidate's new value,
// or a writing by somebody else.
func (t *turn) change(e *entry, ev watcher.Event) {
	e.Modified = ev.ModRevision
	if e.Form == Foreign {
		e.Lease = ev.Lease
		return
	}
	_, granted := granterOf(ev)
	switch {
	case ev.Lease != e.Lease, e.Form == Pawl && !e.Election && !granted:
		e.Lease = ev.Lease
		t.tellEnd(e, Overwritten, "")
	case e.Election:
		old := e.Value
		e.Value, e.Size = bytes.Clone(ev.Value[:min(len(ev.Value), maxValue)]), len(ev.Value)
		if t.folders[e.home].first == e && !(bytes.Equal(old, e.Value) && e.Size <= maxValue) {
			if p, ok := t.event(e); ok {
				p.Kind = Proclaimed
				t.out = append(t.out, p)
			}
		}
	default:
		e.sign(ev.Value)
	}
}

// finish tells who came to wait, and who holds now.
func (t *turn) finish() []Event {
	for _, e := range t.came {
		if l := t.folders[e.home]; l != nil && l.queue[0] != e {
			e.waits = true
			t.tell(e, Enqueued)
		}
	}
	for _, f := range t.lanes() {
		l := t.folders[f]
		if l.first == l.queue[0] {
			continue
		}
		l.first = l.queue[0]
		if e := l.first; e.home == f && !e.over {
			t.acquired(e)
		}
	}
	return t.out
}

func (t *turn) acquired(e *entry) {
	if !t.unsure {
		e.Held = t.now
	}
	ev, ok := t.event(e)
	if !ok {
		return
	}
	ev.Kind = Acquired
	if ev.Waited = 0; e.waits || t.unsure {
		ev.Waited = e.waited(t.now)
	}
	t.out = append(t.out, ev)
}

func (t *turn) tell(e *entry, k Kind) {
	if ev, ok := t.event(e); ok {
		ev.Kind = k
		t.out = append(t.out, ev)
	}
}

// lanes are the touched folders that still are, in order.
func (t *turn) lanes() (fs []string) {
	for f := range t.touched {
		if t.folders[f] != nil {
			fs = append(fs, f)
		}
	}
	slices.Sort(fs)
	return fs
}

// replace makes s what a reading at rev found after a gap, and tells the
// difference.
func (s *state) replace(found *state, now time.Time) []Event {
	s.rev, s.ignored = found.rev, found.ignored
	t := &turn{state: s, revision: revision{now: now}, touched: map[string]bool{}, unsure: true}
	for _, e := range s.byToken() {
		if f := found.keys[e.Key]; f == nil || f.Token != e.Token {
			t.leave(e, Unknown, "")
		}
	}
	for _, f := range found.byToken() {
		e := s.keys[f.Key]
		if e == nil {
			if e = s.add(f.Place); e != nil {
				t.came = append(t.came, e)
				t.touch(e.Key)
			}
			continue
		}
		e.Modified, e.Lease, e.Value, e.Size = f.Modified, f.Lease, f.Value, f.Size
	}
	return t.finish()
}

// byToken are all keys in the order of their create revisions.
func (s *state) byToken() []*entry {
	all := make([]*entry, 0, len(s.keys))
	for _, e := range s.keys {
		all = append(all, e)
	}
	slices.SortFunc(all, inOrder)
	return all
}

// byWhom is what a mark of Evict says, for people.
func byWhom(mark []byte) string {
	var p Place
	p.sign(mark)
	if p.Owner == "" {
		return strconv.Quote(string(mark[:min(len(mark), 64)]))
	}
	return p.Owner
}
