package queue

import (
	"github.com/pawl-locks/pawl/internal/queue/state"
	"github.com/pawl-locks/pawl/internal/session"
	"github.com/pawl-locks/pawl/internal/watcher"
)

// follow watches the deletion of p, the predecessor, from revision from on. Puts on it
// change nothing and are not watched: an election's leader writes its value, and a
// lock's key is handed off to.
func (a *Acquisition) follow(p state.Key, from int64) {
	if _, ok := a.owner(p.Name); !ok {
		a.s.Host().Cluster.Logger().Warn("waiting for a key that is not pawl's", "name", a.queue.Name, "key", p.Name, "create_revision", p.Create)
	}
	w := a.s.Host().Watches.WatchDeletion(p.Name, from, func(u watcher.Update) { a.predecessorChanged(p, u) })
	a.keep(w, &a.preWatch, func() bool {
		now, _ := a.state.Predecessor()
		return now == p
	})
}

// watchOwn watches the own key at place, or all of them, from revision from on.
func (a *Acquisition) watchOwn(place int, from int64) {
	for i, key := range a.owned() {
		if place != i && place != state.All {
			continue
		}
		w := a.s.Host().Watches.Watch(key, "", from, func(u watcher.Update) { a.ownChanged(i, key, u) })
		a.keep(w, a.watchAt(i), func() bool { return a.owned()[i] == key })
	}
}

// watchAt is where the watch of the own key at place is kept.
func (a *Acquisition) watchAt(place int) **watcher.Watch {
	if place == 0 {
		return &a.ownWatch
	}
	return &a.set.watches[place-1]
}

// unwatched takes out the watches of the own key at place, or of all; a.mu is held.
func (a *Acquisition) unwatched(place int) (own *watcher.Watch, others []*watcher.Watch) {
	if place <= 0 {
		own, a.ownWatch = a.ownWatch, nil
	}
	if a.set == nil {
		return own, nil
	}
	for i, w := range a.set.watches {
		if place == i+1 || place == state.All {
			others = append(others, w)
			a.set.watches[i] = nil
		}
	}
	return own, others
}

// cancelAll cancels those of watches that there are.
func cancelAll(watches ...*watcher.Watch) {
	for _, w := range watches {
		if w != nil {
			w.Cancel()
		}
	}
}

// owner is the lease of a key in one of its queues whose form is pawl's.
func (a *Acquisition) owner(key string) (lease int64, ok bool) {
	for _, q := range a.queues() {
		if lease, ok = q.owner(key); ok {
			return lease, true
		}
	}
	return 0, false
}

// keep makes w the watch in slot, unless it is no longer wanted.
func (a *Acquisition) keep(w *watcher.Watch, slot **watcher.Watch, wanted func() bool) {
	a.mu.Lock()
	ok := a.state.Ended() == state.Alive && *slot == nil && wanted()
	if ok {
		*slot = w
	}
	a.mu.Unlock()
	if !ok {
		w.Cancel()
	}
}

// predecessorChanged is called with the deletion of p.
func (a *Acquisition) predecessorChanged(p state.Key, u watcher.Update) {
	for _, ev := range u.Events {
		if ev.Deleted {
			a.apply(state.PredecessorDeleted{Key: p, Revision: ev.ModRevision, Value: ev.Value}, nil)
		}
	}
	if u.Err != nil || u.Compacted > 0 {
		a.apply(state.WatchEnded{Key: p, Missed: u.Compacted > 0}, nil)
	}
}

// ownChanged is called with every change of the own key at place, as long as that is key.
func (a *Acquisition) ownChanged(place int, key string, u watcher.Update) {
	for _, ev := range u.Events {
		if ev.Deleted {
			a.apply(state.OwnDeleted{Place: place, Revision: ev.ModRevision}, nil)
			continue
		}
		a.apply(state.OwnChanged{
			Place: place, Create: ev.CreateRevision, Mod: ev.ModRevision, OnLease: ev.Lease == a.s.ID(), Value: ev.Value,
		}, nil)
	}
	if u.Err != nil || u.Compacted > 0 {
		a.apply(state.WatchEnded{Key: state.Key{Name: key, Create: a.own().Create}, Missed: u.Compacted > 0}, nil)
	}
}

// Observe implements session.Acquisition: what the session's linearizable read at revision rev
// showed of the own key at place, which was key, and, with the first, of the predecessor.
func (a *Acquisition) Observe(rev int64, place int, key string, own, predecessor session.Observed) {
	a.apply(state.Observed{Revision: rev, Own: state.Seen(own), Predecessor: state.Seen(predecessor), Place: place, Key: key}, nil)
	if place == 0 {
		a.checkKind()
	}
}

// Arm implements session.Acquisition: it is held for longer than a moment, so its key is
// watched, from its own revision on.
func (a *Acquisition) Arm() { a.apply(state.Armed{}, nil) }
