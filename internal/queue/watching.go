package queue

import (
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/pawl-locks/pawl/internal/etcdapi"
	"github.com/pawl-locks/pawl/internal/queue/state"
	"github.com/pawl-locks/pawl/internal/session"
	"github.com/pawl-locks/pawl/internal/watcher"
)

// watches are the watches of an acquisition; one that does not exist is nil. The acquisition's
// mutex guards the pointers. others is made once, before anything is watched.
type watches struct {
	own         *watcher.Watch   // of its key, for a set the first one
	others      []*watcher.Watch // of a set's other keys
	predecessor *watcher.Watch   // of the predecessor's key, or of a semaphore's slots

	// Of the watches that began at the present, to be served at once (see created).
	pending uint64 // bit i: no server has created the watch of the key at index i; bit ahead: that of predecessor
	gap     int64  // unless 0, they may have missed what happened up to this revision
}

// ahead is the bit of watches.predecessor. No key has it, because a set has at most MaxNames keys.
const ahead = 63

// at returns where the watch of the key at index i is kept.
func (w *watches) at(i int) **watcher.Watch {
	if i == 0 {
		return &w.own
	}
	return &w.others[i-1]
}

// take removes the watches that an event's effects replace or end, and returns them to be
// cancelled.
func (w *watches) take(fx state.Effects) (unused []*watcher.Watch) {
	take := func(at **watcher.Watch, bit int) {
		if w.pending &^= 1 << bit; *at != nil {
			unused, *at = append(unused, *at), nil
		}
	}
	if fx.Unfollow || fx.FollowSlots || fx.Follow != (state.Key{}) {
		take(&w.predecessor, ahead)
	}
	for i := range 1 + len(w.others) {
		if fx.Unwatch || fx.WatchOwn && (fx.Own == i || fx.Own == state.All) {
			take(w.at(i), i)
		}
	}
	return unused
}

// unwatch removes all watches, and returns them to be cancelled. The caller holds the mutex.
func (a *Acquisition) unwatch() (unused []*watcher.Watch) {
	unused = a.watches.take(state.Effects{Unfollow: true, Unwatch: true})
	if a.wanted != nil {
		unused = append(unused, a.wanted.take()...)
	}
	return unused
}

// cancel cancels watches that were taken.
func cancel(unused []*watcher.Watch) {
	for _, w := range unused {
		w.Cancel()
	}
}

// A waiter's watches begin at the present, because etcd serves one that begins at an earlier
// revision only at its next tick, up to 100 ms later. If others have written since the answer that
// the waiter rests on, it finds out what the watches may have missed, once, when a server has
// created all of them. A holder's watch is not urgent, and begins at the revision up to which its
// key is known.

// expect records that the watches that fx begins begin at the present.
func (w *watches) expect(fx state.Effects) {
	if fx.FollowSlots || fx.Follow != (state.Key{}) {
		w.pending |= 1 << ahead
	}
	switch {
	case fx.WatchOwn && fx.Own == state.All:
		w.pending |= 1<<(1+len(w.others)) - 1
	case fx.WatchOwn:
		w.pending |= 1 << fx.Own
	}
}

// created records that a server created a watch at revision rev. It may have missed what happened
// between from and rev.
func (a *Acquisition) created(bit int, from, rev int64) {
	a.mu.Lock()
	a.watches.pending &^= 1 << bit
	if rev >= from {
		a.watches.gap = max(a.watches.gap, rev)
	}
	gap := a.watches.missed()
	a.mu.Unlock()
	if gap != 0 {
		a.catchUp(gap)
	}
}

// missed returns up to which revision the watches may have missed something. It returns 0 if they
// have missed nothing, or are not all created yet.
func (w *watches) missed() (gap int64) {
	if w.pending == 0 {
		gap, w.gap = w.gap, 0
	}
	return gap
}

// catchUp finds out what happened up to revision gap. If it waits for a slot, a query does that, and
// otherwise a read.
func (a *Acquisition) catchUp(gap int64) {
	switch full := ask(a, func(e *session.Entry) bool { return e.Phase == state.Full }); {
	case a.ended.Load() != nil:
	case full:
		a.apply(state.SlotFreed{Revision: gap}, nil)
	default:
		a.s.Host().Reader.Read(a)
	}
}

// follow watches the deletion of p, the predecessor, starting at revision from. Puts on p are not
// watched because they do not end the wait: p's owner may write an election's value to it, and p
// may receive a handoff.
func (a *Acquisition) follow(p state.Key, from int64) {
	if _, ok := a.owner(p.Name); !ok {
		a.s.Host().Cluster.Logger().Warn("waiting for a key that is not pawl's", "name", a.queues[0].Name, "key", p.Name, "create_revision", p.Create)
	}
	w := a.s.Host().Watches.WatchDeletionsNow(p.Name, "", from, func(u watcher.Update) { a.predecessorChanged(p, from, u) })
	a.keep(w, &a.watches.predecessor, func() bool {
		now := a.entry.Predecessor
		return now == p
	})
}

// watchOwn watches the key at index, or all keys, starting at revision from.
func (a *Acquisition) watchOwn(index int, from int64) {
	for i, key := range a.owned() {
		if index == i || index == state.All {
			a.watchKey(i, key, from)
		}
	}
}

func (a *Acquisition) watchKey(i int, key string, from int64) {
	a.mu.Lock()
	now := a.watches.pending&(1<<i) != 0
	a.mu.Unlock()
	watch := a.s.Host().Watches.Watch
	if now {
		watch = a.s.Host().Watches.WatchNow
	}
	w := watch(key, "", from, func(u watcher.Update) { a.ownChanged(i, key, from, u) })
	a.keep(w, a.watches.at(i), func() bool { return a.owned()[i] == key })
}

// owner returns the lease in the name of key, if key is in one of its queues and has pawl's form.
func (a *Acquisition) owner(key string) (lease int64, ok bool) {
	for _, q := range a.queues {
		if lease, ok = q.owner(key); ok {
			return lease, true
		}
	}
	return 0, false
}

// keep stores w in at, or cancels it if it is no longer wanted.
func (a *Acquisition) keep(w *watcher.Watch, at **watcher.Watch, wanted func() bool) {
	a.mu.Lock()
	ok := a.entry.End == state.Alive && *at == nil && wanted()
	if ok {
		*at = w
	}
	a.mu.Unlock()
	if !ok {
		w.Cancel()
	}
}

// predecessorChanged is called with the deletion of p. Its watch starts at revision from.
func (a *Acquisition) predecessorChanged(p state.Key, from int64, u watcher.Update) {
	if u.Created > 0 && a.predecessor() == p {
		a.created(ahead, from, u.Created)
	}
	for _, ev := range u.Events {
		if ev.Deleted {
			a.apply(state.PredecessorDeleted{Key: p}, nil)
		}
	}
	if u.Err != nil || u.Compacted > 0 {
		a.apply(state.WatchEnded{Key: p, Missed: u.Compacted > 0}, nil)
	}
}

// ownChanged is called with every change of the key at index, as long as that is named key. The
// watch starts at revision from.
func (a *Acquisition) ownChanged(index int, key string, from int64, u watcher.Update) {
	if u.Created > 0 {
		a.created(index, from, u.Created)
	}
	for _, ev := range u.Events {
		if ev.Deleted {
			a.apply(state.OwnDeleted{Index: index, Revision: ev.ModRevision}, nil)
			continue
		}
		a.apply(state.OwnChanged{
			Index: index, Create: ev.CreateRevision, Mod: ev.ModRevision, OnLease: ev.Lease == a.s.ID(), Value: ev.Value,
		}, nil)
	}
	if u.Err != nil || u.Compacted > 0 {
		a.apply(state.WatchEnded{Key: state.Key{Name: key, Create: a.own().Create}, Missed: u.Compacted > 0}, nil)
	}
}

// observe takes in what the session's linearizable read at revision rev showed of the key at index,
// which was named key, and of the predecessor if that was read too.
func (a *Acquisition) observe(rev int64, index int, key string, shown []*mvccpb.KeyValue) {
	ev := state.Observed{Revision: rev, Own: seen(shown[0]), Index: index, Key: key}
	if len(shown) > 1 {
		ev.Predecessor = seen(shown[1])
	}
	a.apply(ev, nil)
	if index == 0 {
		a.checkMixed()
		a.watchBehind()
	}
}

func seen(kv *mvccpb.KeyValue) state.Seen {
	return state.Seen{Create: etcdapi.CreateRevision(kv), Mod: etcdapi.ModRevision(kv)}
}

// Arm implements session.Dependent. It is called when the lock has been held for a while, so that
// watching its key is worth it. The watch begins at the key's revision.
func (a *Acquisition) Arm() { a.apply(state.Armed{}, nil) }
