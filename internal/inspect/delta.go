package inspect

import (
	"bytes"
	"slices"
	"time"

	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/watcher"
)

// A delta is the application of one revision to the state.
type delta struct {
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
func (d *delta) takes(e *entry, slot string) {
	if e == nil {
		return
	}
	d.waited[slot], e.ended = e, true
}

func (d *delta) take(ev watcher.Event) {
	e := d.keys[ev.Key]
	switch {
	case ev.Deleted && e != nil:
		cause, by := d.classify(e)
		d.leave(e, cause, by)
	case ev.Deleted:
		d.ignore(ev.Key)
	case e == nil || int64(e.Token) != ev.CreateRevision:
		if e != nil {
			d.leave(e, Unknown, "")
		}
		d.enter(ev)
	default:
		d.change(e, ev)
	}
}

// ignore counts the end of a key that was not kept.
func (d *delta) ignore(key string) {
	if f, _ := formOf(key); f == Foreign && !d.hides(key) && d.ignored > 0 {
		d.ignored--
	}
}

// classify returns why e's key was deleted.
func (d *delta) classify(e *entry) (c Cause, by string) {
	if d.handed[e.Key] {
		return HandedOn, ""
	}
	id, n := sequenceOf(e.Key)
	a := d.answers[query{lease: id, n: n, rev: d.rev, ended: true}]
	switch {
	case a.broken != nil:
		return Broken, byWhom(a.broken)
	case e.Lease == 0: // only a request deletes it
		return KeyDeleted, ""
	case a.known && !a.there:
		return LeaseEnded, ""
	case a.known:
		return KeyDeleted, ""
	case d.gone[e.Lease] > 1:
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
func (d *delta) leave(e *entry, c Cause, by string) {
	d.touch(e.Key)
	d.end(e, c, by)
	d.remove(e)
}

func (d *delta) touch(key string) { d.above(key, func(f string) { d.touched[f] = true }) }

// end reports e's end.
func (d *delta) end(e *entry, c Cause, by string) {
	if e.ended {
		return
	}
	e.ended = true
	ev, ok := d.event(e)
	if !ok {
		return
	}
	ev.Cause, ev.By = c, by
	switch {
	case !e.holds:
		ev.Kind = GaveUp
		ev.Waited = e.waited(d.now)
	case c == HandedOn, c == KeyDeleted:
		ev.Kind = Released
	case c == Unknown:
		ev.Kind = Ended
	default:
		ev.Kind = Lost
	}
	if ev.Kind != GaveUp && !e.HeldSince.IsZero() {
		ev.Held = d.now.Sub(e.HeldSince)
	}
	d.out = append(d.out, ev)
}

// event returns an event of e without its Kind, and false if nothing is reported of such keys.
func (d *delta) event(e *entry) (Event, bool) {
	l := d.folders[e.home]
	if e.Form == Foreign || l == nil || !l.isName {
		return Event{}, false
	}
	p := e.Position
	p.Holds = e.holds
	return Event{
		Name: l.queueName.Name, Prefix: e.home, Election: e.Election, Position: p,
		Revision: d.rev, Time: d.now, Waited: notKnown, Held: notKnown, Unsure: d.unsure,
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
func (d *delta) enter(ev watcher.Event) {
	p := newPosition(ev.Key, ev.Value, ev.CreateRevision, ev.ModRevision, ev.Lease)
	p.Observed = d.now
	p.belongs(d.answers[p.query(d.rev)])
	d.come(p)
}

// come adds a position that was not there before.
func (d *delta) come(p Position) {
	e := d.add(p)
	if e == nil {
		return
	}
	d.came = append(d.came, e)
	d.touch(e.Key)
}

// change applies a put on an existing key: a handoff, a candidate's new value, or a
// write by somebody else.
func (d *delta) change(e *entry, ev watcher.Event) {
	e.Modified = ev.ModRevision
	if e.Form == Foreign {
		e.Lease = ev.Lease
		return
	}
	_, handedOff := releasedBy(ev)
	switch {
	case ev.Lease != e.Lease, e.Form == Pawl && !e.Election && !handedOff:
		e.Lease = ev.Lease
		d.end(e, Overwritten, "")
	case e.Election:
		old := e.Value
		e.Value, e.Size = bytes.Clone(ev.Value[:min(len(ev.Value), maxValue)]), len(ev.Value)
		if e.holds && !(bytes.Equal(old, e.Value) && e.Size <= maxValue) {
			d.emit(e, Proclaimed)
		}
	default:
		e.identify(ev.Value)
	}
}

// finish reports who has begun to wait, and who holds now.
func (d *delta) finish() []Event {
	for _, e := range d.came {
		if l := d.folders[e.home]; l != nil && l.queues(e) {
			e.waiting = true
			d.emit(e, Enqueued)
		}
	}
	for _, e := range d.came {
		if d.keys[e.Key] == e && e.HasSlot() {
			d.acquired(e)
		}
	}
	for _, f := range d.remaining() {
		l := d.folders[f]
		for _, e := range l.queue[:l.holders(f)] {
			if e.home == f && !e.holds {
				d.acquired(e)
			}
		}
	}
	return d.out
}

func (d *delta) acquired(e *entry) {
	e.holds = true
	if e.ended {
		return
	}
	if !d.unsure {
		e.HeldSince = d.now
	}
	ev, ok := d.event(e)
	if !ok {
		return
	}
	ev.Kind = Acquired
	from := e
	if q := d.waited[e.Key]; q != nil {
		from = q
	}
	if ev.Waited = 0; from.waiting || d.unsure {
		ev.Waited = from.waited(d.now)
	}
	d.out = append(d.out, ev)
}

func (d *delta) emit(e *entry, k Kind) {
	if ev, ok := d.event(e); ok {
		ev.Kind = k
		d.out = append(d.out, ev)
	}
}

// remaining returns the touched folders that still exist, in order.
func (d *delta) remaining() (fs []string) {
	for f := range d.touched {
		if d.folders[f] != nil {
			fs = append(fs, f)
		}
	}
	slices.Sort(fs)
	return fs
}
