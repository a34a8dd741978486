package queue

import (
	"slices"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/queue/state"
	"github.com/pawl-locks/pawl/internal/watcher"
)

// A holder learns that somebody waits behind it only if it asks. From then until it knows, it
// watches the queue of each name instead of its own key there. These watches begin at the
// present, so that etcd serves them at once; one read after the last of them was created shows
// who waited before. Each renewal reads the same, because the silence of a watch proves nothing
// (rule H2).
//
// A key was enqueued behind its own if it was created later and is in a range in the way of
// which its own key is (intheway.go): for an exclusive holder all keys of the queue, for a
// shared one those that are not shared.

// wanted is what an acquisition knows of who waits behind it. The acquisition's mutex guards it.
type wanted struct {
	ch    chan struct{}
	found bool    // somebody waits behind it; ch is closed
	known []int64 // up to which revision the changes of its own key at each index are known
}

// Wanted is closed once another key is seen to wait for its own keys, even if that key is gone
// again. It is nil for a semaphore, and for an acquisition that was not held when it was first
// called.
func (a *Acquisition) Wanted() <-chan struct{} {
	_ = a.Err() // compares the clock
	a.mu.Lock()
	if w := a.wanted; w != nil || a.permit != nil || a.state.Phase() != state.Held {
		defer a.mu.Unlock()
		if w == nil {
			return nil
		}
		return w.ch
	}
	create := a.state.Own().Create
	w := &wanted{ch: make(chan struct{}), known: slices.Repeat([]int64{create}, len(a.keys))}
	a.wanted = w
	unused := a.watches.take(state.Effects{Unwatch: true})
	a.watches.pending, a.watches.gap = 1<<len(a.keys)-1, 0 // of all of them, before the first is created
	a.mu.Unlock()

	unused.cancel()
	a.s.Several(&a.hook, len(a.keys)+a.spans())
	a.watchOwn(state.All, create+1)
	return w.ch
}

// asks reports whether Wanted was asked for and is not closed yet. The caller holds the mutex.
func (a *Acquisition) asks() bool { return a.wanted != nil && !a.wanted.found }

// isWanted closes Wanted, and has its own keys watched again.
func (a *Acquisition) isWanted() {
	a.mu.Lock()
	if !a.asks() || a.state.Ended() != state.Alive {
		a.mu.Unlock()
		return
	}
	a.wanted.found = true
	close(a.wanted.ch)
	known := slices.Clone(a.wanted.known)
	unused := a.watches.take(state.Effects{Unwatch: true})
	a.mu.Unlock()

	unused.cancel()
	a.s.Several(&a.hook, len(a.keys))
	for i, q := range a.queues() {
		a.watchKey(i, q, a.owned()[i], known[i]+1)
	}
}

// knowsOwn records that the changes of its own key at index up to revision rev are known.
func (a *Acquisition) knowsOwn(index int, rev int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.asks() {
		a.wanted.known[index] = max(a.wanted.known[index], rev)
	}
}

// queueChanged is called with every change in q, the queue of its own key at index, while that
// key is key. Changes from revision from on are watched from the present.
func (a *Acquisition) queueChanged(index int, q Queue, key string, from int64, u watcher.Update) {
	if u.Created > 0 {
		a.created(index, from, u.Created)
		return
	}
	own := watcher.Update{Compacted: u.Compacted, Err: u.Err}
	behind, create := false, a.own().Create
	for _, ev := range u.Events {
		if ev.Key == key {
			own.Events = append(own.Events, ev)
		} else if !ev.Deleted && ev.CreateRevision > create && q.isInTheWay(ev.Key) {
			behind = true
		}
	}
	a.ownChanged(index, key, from, own)
	a.knowsOwn(index, u.Revision)
	if behind {
		a.isWanted()
	}
}

// isInTheWay reports whether key, of the queue, is in the way of its keys.
func (q Queue) isInTheWay(key string) bool {
	k, ok := q.Parse(key)
	return !q.Shared || !ok || k.Form != keys.Shared
}

// observeBehind takes what a read showed of the last-created keys in the way of a queue's.
func (a *Acquisition) observeBehind(_ int64, shown []*mvccpb.KeyValue) {
	for _, kv := range shown {
		if kv.GetCreateRevision() > a.own().Create {
			a.isWanted()
		}
	}
}
