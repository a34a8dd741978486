package inspect

import (
	"bytes"
	"slices"
	"strconv"
	"time"

	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/watcher"
)

// A query is about the session of a queue key at one revision: whether the session's
// key existed, and its value.
type query struct {
	lease, n int64
	rev      int64
	ended    bool // the queue key is gone: read the mark of Evict too
}

// An answer to a query. The zero answer is unknown.
type answer struct {
	known  bool
	there  bool   // the session's key
	value  []byte // of it
	broken []byte // the mark of Evict; nil: there is none
}

// queriesOf returns what apply needs to know about the events of one revision: of a
// new candidate's key, who the candidate is; of a key deleted without a handoff,
// whether its session had ended.
func queriesOf(events []watcher.Event) (queries []query) {
	handed, taken := handoffsOf(events), takesOf(events)
	for _, ev := range events {
		k, ok := keys.ParseQueueKey(ev.Key)
		switch {
		case !ok || keys.OfSessions(ev.Key) || taken[ev.Key] != "":
		case ev.Deleted && !handed[ev.Key]:
			queries = append(queries, query{lease: k.Lease, n: k.N, rev: ev.ModRevision, ended: true})
		case !ev.Deleted && ev.CreateRevision == ev.ModRevision:
			if !keys.OfLock(ev.Value) {
				queries = append(queries, query{lease: k.Lease, n: k.N, rev: ev.ModRevision})
			}
		}
	}
	return queries
}

// handoffsOf returns the keys whose release handed the queue to the next, in the
// events of one revision.
func handoffsOf(events []watcher.Event) map[string]bool {
	var by map[string]bool
	for _, ev := range events {
		if granter, ok := releasedBy(ev); ok {
			if by == nil {
				by = map[string]bool{}
			}
			by[granter] = true
		}
	}
	return by
}

// releasedBy returns the key whose release wrote ev as a handoff.
func releasedBy(ev watcher.Event) (key string, ok bool) {
	if ev.Deleted || ev.CreateRevision == ev.ModRevision {
		return "", false
	}
	h, ok := keys.ParseHandoff(ev.Value)
	prefix, _ := keys.Split(ev.Key)
	return prefix + string(h.By), ok
}

// takesOf returns the turnstile keys in the events of one revision that were exchanged for a
// slot, with the slot's key: one acquisition has both keys, one after the other.
func takesOf(events []watcher.Event) map[string]string {
	var taken map[string]string
	for _, ev := range events {
		if k, ok := keys.ParseQueueKey(ev.Key); ok && k.Form == keys.Slot && !ev.Deleted {
			if taken == nil {
				taken = map[string]string{}
			}
			taken[turnstileOf(ev.Key)] = ev.Key
		}
	}
	if taken == nil {
		return nil
	}
	gone := map[string]string{}
	for _, ev := range events {
		if slot := taken[ev.Key]; slot != "" && ev.Deleted {
			gone[ev.Key] = slot
		}
	}
	return gone
}

// turnstileOf returns the key with which the acquisition that has a slot's key waited.
func turnstileOf(slot string) string {
	prefix, _ := keys.Split(slot)
	k, _ := keys.ParseQueueKey(slot)
	return keys.QueueKey{Lease: k.Lease, N: k.N, Form: keys.Turnstile}.In(prefix)
}

// A revision is the events of one revision, when they arrived, and the answers to
// their queries.
type revision struct {
	events  []watcher.Event
	now     time.Time
	answers map[query]answer
}

// apply applies a revision and returns its events: first the ends, then the arrivals,
// then the new holders.
func (s *state) apply(r revision) (out []Event) {
	s.rev = r.events[0].ModRevision
	t := &turn{state: s, revision: r, handed: handoffsOf(r.events), gone: map[int64]int{}, touched: map[string]bool{}}
	for key, slot := range takesOf(r.events) {
		t.takes(s.keys[key], slot)
	}
	for _, ev := range r.events {
		if e := s.keys[ev.Key]; ev.Deleted && e != nil && e.Form == Etcd {
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
	gone    map[int64]int     // deleted keys of clientv3's sessions, by lease
	waited  map[string]*entry // with what key each slot was waited for that was taken in this revision
	came    []*entry
	touched map[string]bool
	unsure  bool // the events are the differences that a read shows
	out     []Event
}

// takes notes that e, which waited, has the slot with this key now: that is not its end.
func (t *turn) takes(e *entry, slot string) {
	if e == nil {
		return
	}
	if t.waited == nil {
		t.waited = map[string]*entry{}
	}
	t.waited[slot], e.ended = e, true
}

func (t *turn) take(ev watcher.Event) {
	e := t.keys[ev.Key]
	switch {
	case ev.Deleted && e != nil:
		cause, by := t.classify(e)
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

// ignore counts the end of a key that was not kept.
func (t *turn) ignore(key string) {
	if f, _ := formOf(key); f == Foreign && !t.hides(key) && t.ignored > 0 {
		t.ignored--
	}
}

// classify returns why e's key was deleted.
func (t *turn) classify(e *entry) (c Cause, by string) {
	if t.handed[e.Key] {
		return HandedOn, ""
	}
	id, n := sequenceOf(e.Key)
	a := t.answers[query{lease: id, n: n, rev: t.rev, ended: true}]
	switch {
	case a.broken != nil:
		return Broken, byWhom(a.broken)
	case e.Lease == 0: // only a request deletes it
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

// sequenceOf returns the lease and the sequence number in a key of pawl's form, and
// zeros for other forms.
func sequenceOf(key string) (lease, n int64) {
	k, _ := keys.ParseQueueKey(key)
	return k.Lease, k.N
}

// leave removes e, and reports its end unless that is reported already.
func (t *turn) leave(e *entry, c Cause, by string) {
	t.touch(e.Key)
	t.end(e, c, by)
	t.remove(e)
}

func (t *turn) touch(key string) { t.above(key, func(f string) { t.touched[f] = true }) }

// end reports e's end.
func (t *turn) end(e *entry, c Cause, by string) {
	if e.ended {
		return
	}
	e.ended = true
	ev, ok := t.event(e)
	if !ok {
		return
	}
	ev.Cause, ev.By = c, by
	switch {
	case !e.holds:
		ev.Kind = GaveUp
		ev.Waited = e.waited(t.now)
	case c == HandedOn, c == KeyDeleted:
		ev.Kind = Released
	case c == Unknown:
		ev.Kind = Ended
	default:
		ev.Kind = Lost
	}
	if ev.Kind != GaveUp && !e.HeldSince.IsZero() {
		ev.Held = t.now.Sub(e.HeldSince)
	}
	t.out = append(t.out, ev)
}

// event returns an event of e without its Kind; false: nothing is reported of such
// keys.
func (t *turn) event(e *entry) (Event, bool) {
	l := t.folders[e.home]
	if e.Form == Foreign || l == nil || !l.named {
		return Event{}, false
	}
	p := e.Position
	p.Holds = e.holds
	return Event{
		Name: l.queueName.Name, Prefix: e.home, Election: e.Election, Position: p,
		Revision: t.rev, Time: t.now, Waited: notKnown, Held: notKnown, Unsure: t.unsure,
	}, true
}

// waited is how long e waits: since its key was observed to appear, or since its
// value says that it was put.
func (e *entry) waited(now time.Time) time.Duration {
	switch {
	case !e.Observed.IsZero():
		return now.Sub(e.Observed)
	case !e.Since.IsZero() && !e.Election:
		return max(0, now.Sub(e.Since))
	}
	return notKnown
}

// enter adds a new key.
func (t *turn) enter(ev watcher.Event) {
	p := newPosition(ev.Key, ev.Value, ev.CreateRevision, ev.ModRevision, ev.Lease)
	p.Observed = t.now
	id, n := sequenceOf(p.Key)
	if a := t.answers[query{lease: id, n: n, rev: t.rev}]; p.Election && a.there {
		p.identify(a.value)
	}
	t.come(p)
}

// come adds a position that was not there before.
func (t *turn) come(p Position) {
	e := t.add(p)
	if e == nil {
		return
	}
	t.came = append(t.came, e)
	t.touch(e.Key)
}

// change applies a put on an existing key: a handoff, a candidate's new value, or a
// write by somebody else.
func (t *turn) change(e *entry, ev watcher.Event) {
	e.Modified = ev.ModRevision
	if e.Form == Foreign {
		e.Lease = ev.Lease
		return
	}
	_, handedOff := releasedBy(ev)
	switch {
	case ev.Lease != e.Lease, e.Form == Pawl && !e.Election && !handedOff:
		e.Lease = ev.Lease
		t.end(e, Overwritten, "")
	case e.Election:
		old := e.Value
		e.Value, e.Size = bytes.Clone(ev.Value[:min(len(ev.Value), maxValue)]), len(ev.Value)
		if e.holds && !(bytes.Equal(old, e.Value) && e.Size <= maxValue) {
			if p, ok := t.event(e); ok {
				p.Kind = Proclaimed
				t.out = append(t.out, p)
			}
		}
	default:
		e.identify(ev.Value)
	}
}

// finish reports who has begun to wait, and who holds now.
func (t *turn) finish() []Event {
	for _, e := range t.came {
		if l := t.folders[e.home]; l != nil && l.queues(e) {
			e.waiting = true
			t.emit(e, Enqueued)
		}
	}
	for _, e := range t.came {
		if t.keys[e.Key] == e && e.HasSlot() {
			t.acquired(e)
		}
	}
	for _, f := range t.remaining() {
		l := t.folders[f]
		for _, e := range l.queue[:l.holders(f)] {
			if e.home == f && !e.holds {
				t.acquired(e)
			}
		}
	}
	return t.out
}

// queues reports whether e, which came, has to wait for others. At a semaphore that is for
// those before it at the turnstile, and where all slots are held.
func (l *folder) queues(e *entry) bool {
	switch {
	case e.HasSlot():
		return false
	case e.Mode != ModeSemaphore:
		return !slices.Contains(l.queue[:l.holders(e.home)], e)
	}
	slots, limit := 0, keys.MaxLimit
	for _, other := range l.queue {
		switch {
		case other.modeIn(e.home) != ModeSemaphore:
		case other.HasSlot():
			slots, limit = slots+1, min(limit, other.Limit)
		case other != e && inOrder(other, e) < 0:
			return true
		}
	}
	return slots >= limit
}

func (t *turn) acquired(e *entry) {
	e.holds = true
	if e.ended {
		return
	}
	if !t.unsure {
		e.HeldSince = t.now
	}
	ev, ok := t.event(e)
	if !ok {
		return
	}
	ev.Kind = Acquired
	from := e
	if q := t.waited[e.Key]; q != nil {
		from = q
	}
	if ev.Waited = 0; from.waiting || t.unsure {
		ev.Waited = from.waited(t.now)
	}
	t.out = append(t.out, ev)
}

func (t *turn) emit(e *entry, k Kind) {
	if ev, ok := t.event(e); ok {
		ev.Kind = k
		t.out = append(t.out, ev)
	}
}

// remaining returns the touched folders that still exist, in order.
func (t *turn) remaining() (fs []string) {
	for f := range t.touched {
		if t.folders[f] != nil {
			fs = append(fs, f)
		}
	}
	slices.Sort(fs)
	return fs
}

// replace makes s equal to what a read found after a gap, and reports the
// differences.
func (s *state) replace(found *state, now time.Time) []Event {
	s.rev, s.ignored = found.rev, found.ignored
	t := &turn{state: s, revision: revision{now: now}, touched: map[string]bool{}, unsure: true}
	for _, f := range found.keys {
		if q := turnstileOf(f.Key); f.HasSlot() && found.keys[q] == nil {
			t.takes(s.keys[q], f.Key)
		}
	}
	for _, e := range s.byToken() {
		if f := found.keys[e.Key]; f == nil || f.Token != e.Token {
			t.leave(e, Unknown, "")
		}
	}
	for _, f := range found.byToken() {
		e := s.keys[f.Key]
		if e == nil {
			t.come(f.Position)
			continue
		}
		e.Modified, e.Lease, e.Value, e.Size = f.Modified, f.Lease, f.Value, f.Size
	}
	return t.finish()
}

// byToken returns all keys in the order of their create revisions.
func (s *state) byToken() []*entry {
	all := make([]*entry, 0, len(s.keys))
	for _, e := range s.keys {
		all = append(all, e)
	}
	slices.SortFunc(all, inOrder)
	return all
}

// byWhom returns the caller that a mark of Evict names, for people.
func byWhom(mark []byte) string {
	var p Position
	p.identify(mark)
	if p.Owner == "" {
		return strconv.Quote(string(mark[:min(len(mark), 64)]))
	}
	return p.Owner
}
