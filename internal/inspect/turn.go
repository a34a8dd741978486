package inspect

import (
	"bytes"
	"slices"
	"time"

	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/watcher"
)

// A turn is one revision being applied.
type turn struct {
	*state
	revision
	handed  map[string]bool
	gone    map[int64]int     // deleted keys of clientv3's sessions, by lease
	waited  map[string]*entry // the entry that waited for each slot taken in this revision
	came    []*entry
	touched map[string]bool
	unsure  bool // the events are the differences that a read shows
	out     []Event
}

// takes notes that e, which waited, now has the slot with this key. That is not its end.
func (t *turn) takes(e *entry, slot string) {
	if e == nil {
		return
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

// leave removes e, and reports its end unless that was already reported.
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

// event returns an event of e without its Kind, and false if nothing is reported of such keys.
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

// waited is how long e waits, since its key was observed to appear, or since its value says that it
// was put.
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
	p.belongs(t.answers[p.query(t.rev)])
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
			t.emit(e, Proclaimed)
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
