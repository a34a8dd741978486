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
	if _, ok := a.queue.owner(p.Name); !ok {
		a.s.Host().Cluster.Logger().Warn("waiting for a key that is not pawl's", "name", a.queue.Name, "key", p.Name, "create_revision", p.Create)
	}
	w := a.s.Host().Watches.WatchDeletion(p.Name, from, func(u watcher.Update) { a.predecessorChanged(p, u) })
	a.keep(w, &a.preWatch, func() bool {
		now, _ := a.state.Predecessor()
		return now == p
	})
}

// watchOwn watches the own key from revision from on.
func (a *Acquisition) watchOwn(from int64) {
	w := a.s.Host().Watches.Watch(a.key, "", from, a.ownChanged)
	a.keep(w, &a.ownWatch, func() bool { return true })
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

// ownChanged is called with every change of the own key.
func (a *Acquisition) ownChanged(u watcher.Update) {
	for _, ev := range u.Events {
		if ev.Deleted {
			a.apply(state.OwnDeleted{}, nil)
			continue
		}
		a.apply(state.OwnChanged{
			Create: ev.CreateRevision, Mod: ev.ModRevision, OnLease: ev.Lease == a.s.ID(), Value: ev.Value,
		}, nil)
	}
	if u.Err != nil || u.Compacted > 0 {
		a.apply(state.WatchEnded{Key: a.own(), Missed: u.Compacted > 0}, nil)
	}
}

// Observe implements session.Acquisition: what the session's linearizable read at revision rev
// showed of the own key and the predecessor.
func (a *Acquisition) Observe(rev int64, own, predecessor session.Observed) {
	a.apply(state.Observed{Revision: rev, Own: state.Seen(own), Predecessor: state.Seen(predecessor)}, nil)
	a.checkKind()
}

// Arm implements session.Acquisition: it is held for longer than a moment, so its key is
// watched, from its own revision on.
func (a *Acquisition) Arm() { a.apply(state.Armed{}, nil) }
