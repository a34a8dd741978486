package inspect

import (
	"slices"
	"strconv"
	"time"

	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/watcher"
)

// A query asks about the session of a queue key at one revision: whether the session's key existed,
// and its value.
type query struct {
	lease, n int64
	rev      int64
	ended    bool // the queue key is gone, so read the mark of Evict too
}

// An answer to a query. The zero answer is unknown.
type answer struct {
	known  bool
	there  bool   // the session's key
	value  []byte // of the session's key
	owner  []byte // of the candidate's owner key; nil if there is none, and then value has the owner
	broken []byte // the mark of Evict, or nil
}

// queriesOf returns what apply needs to know about the events of one revision: for a new key whose
// value does not name its owner, who that is; for a key deleted without a handoff, whether its
// session had ended.
func queriesOf(events []watcher.Event) (queries []query) {
	handed, taken := handoffsOf(events), takesOf(events)
	for _, ev := range events {
		k, ok := keys.ParseQueueKey(ev.Key)
		switch {
		case !ok || keys.OfSessions(ev.Key) || keys.OfShards(ev.Key) || taken[ev.Key] != "":
		case ev.Deleted && !handed[ev.Key]:
			queries = append(queries, query{lease: k.Lease, n: k.N, rev: ev.ModRevision, ended: true})
		case !ev.Deleted && ev.CreateRevision == ev.ModRevision:
			if !keys.OfLock(ev.Value) || keys.IsPlain(ev.Value) {
				queries = append(queries, query{lease: k.Lease, n: k.N, rev: ev.ModRevision})
			}
		}
	}
	return queries
}

// handoffsOf returns the keys whose release handed the queue to the next, in the
// events of one revision.
func handoffsOf(events []watcher.Event) map[string]bool {
	by := map[string]bool{}
	for _, ev := range events {
		if granter, ok := releasedBy(ev); ok {
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

// takesOf returns the turnstile keys that were exchanged for a slot in the events of one revision,
// with the slots' keys. One acquisition has both keys, one after the other.
func takesOf(events []watcher.Event) map[string]string {
	taken := map[string]string{}
	for _, ev := range events {
		if k, ok := keys.ParseQueueKey(ev.Key); ok && k.Form == keys.Slot && !ev.Deleted {
			taken[turnstileOf(ev.Key)] = ev.Key
		}
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
	d := &delta{state: s, revision: r, handed: handoffsOf(r.events), gone: map[int64]int{}, waited: map[string]*entry{}, touched: map[string]bool{}}
	for key, slot := range takesOf(r.events) {
		d.takes(s.keys[key], slot)
	}
	for _, ev := range r.events {
		if e := s.keys[ev.Key]; ev.Deleted && e != nil && e.Form == Etcd {
			d.gone[e.Lease]++
		}
	}
	for _, ev := range r.events {
		d.take(ev)
	}
	return d.finish()
}

// queues reports whether e, which is new, has to wait for others. At a semaphore it waits for those
// ahead of it at the turnstile, or if all slots are held.
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

// replace makes s equal to what a read found after a gap, and reports the
// differences.
func (s *state) replace(found *state, now time.Time) []Event {
	s.rev, s.ignored = found.rev, found.ignored
	d := &delta{state: s, revision: revision{now: now}, waited: map[string]*entry{}, touched: map[string]bool{}, unsure: true}
	for _, f := range found.keys {
		if q := turnstileOf(f.Key); f.HasSlot() && found.keys[q] == nil {
			d.takes(s.keys[q], f.Key)
		}
	}
	for _, e := range s.byToken() {
		if f := found.keys[e.Key]; f == nil || f.Token != e.Token {
			d.leave(e, Unknown, "")
		}
	}
	for _, f := range found.byToken() {
		e := s.keys[f.Key]
		if e == nil {
			d.come(f.Position)
			continue
		}
		e.Modified, e.Lease, e.Value, e.Size = f.Modified, f.Lease, f.Value, f.Size
	}
	return d.finish()
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
