package queue

import (
	"slices"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/pawl-locks/pawl/internal/etcdapi"
	"github.com/pawl-locks/pawl/internal/queue/state"
	"github.com/pawl-locks/pawl/internal/watcher"
)

// A holder learns that somebody waits behind it only if it calls Wanted. Until it knows, it watches
// the ranges of keys that conflict with its keys (conflicts.go), because a key that is created
// there later waits for it. These watches begin at the present, so that etcd serves them at once. A
// read after the last of them was created shows who waited before. Each renewal repeats that read,
// because the silence of a watch proves nothing (rule H2).

// wanted is what an acquisition knows of who waits behind it. The acquisition's mutex guards it.
type wanted struct {
	ch      chan struct{}
	found   bool     // somebody waits behind it; ch is closed
	watches []behind // one of each range
}

// behind is the watch of a range. If it has ended, the next renewal begins it again.
type behind struct {
	begun   bool
	pending bool           // no server has created it
	watch   *watcher.Watch // nil until it is kept
}

// Wanted returns a channel that is closed once another key is seen to wait for its keys, even if
// that key no longer exists. It is nil for a semaphore, and for an acquisition that was not held at
// the first call.
func (a *Acquisition) Wanted() <-chan struct{} {
	_ = a.Err() // compares the clock
	a.mu.Lock()
	w := a.wanted
	first := w == nil && a.permit == nil && a.entry.Phase == state.Held && a.entry.End == state.Alive
	if first {
		w = &wanted{ch: make(chan struct{}), watches: make([]behind, a.spans())}
		a.wanted = w
	}
	a.mu.Unlock()
	if first {
		a.s.SetReads(&a.entry, len(a.keys)+a.spans())
		a.watchBehind()
	}
	if w == nil {
		return nil
	}
	return w.ch
}

// wantedOpen reports whether Wanted was called and its channel may still be closed. The caller holds
// the mutex.
func (a *Acquisition) wantedOpen() bool {
	return a.wanted != nil && !a.wanted.found && a.entry.End == state.Alive
}

// watchBehind begins those watches of who waits behind it that are missing.
func (a *Acquisition) watchBehind() {
	a.mu.Lock()
	open, create := a.wantedOpen(), a.entry.Own.Create
	a.mu.Unlock()
	if !open {
		return
	}
	i := 0
	for _, q := range a.queues {
		for _, s := range q.conflicts() {
			a.watchSpan(s, &a.wanted.watches[i], create)
			i++
		}
	}
}

// watchSpan begins the watch of s, unless it was begun. at is where it is kept.
func (a *Acquisition) watchSpan(s span, at *behind, create int64) {
	a.mu.Lock()
	begins := !at.begun
	if begins {
		at.begun, at.pending = true, true
	}
	a.mu.Unlock()
	if begins {
		w := a.s.Host().Watches.WatchNow(string(s.from), string(s.to), create+1, func(u watcher.Update) { a.behindChanged(at, u) })
		a.keep(w, &at.watch, func() bool { return at.begun && a.wantedOpen() })
	}
}

// behindChanged is called with every change in the range of at.
func (a *Acquisition) behindChanged(at *behind, u watcher.Update) {
	if u.Created > 0 && a.createdLast(at) {
		a.s.Host().Reader.Read(a)
	}
	for _, ev := range u.Events {
		if !ev.Deleted {
			a.seeBehind(ev.CreateRevision)
		}
	}
	if u.Err != nil || u.Compacted > 0 {
		a.mu.Lock()
		*at = behind{}
		a.mu.Unlock()
	}
}

// createdLast records that a server has created the watch at, and reports whether all are created.
func (a *Acquisition) createdLast(at *behind) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	at.pending = false
	return !slices.ContainsFunc(a.wanted.watches, func(b behind) bool { return b.pending })
}

// observeBehind takes in what a read showed of the last-created keys in the spans of a queue.
func (a *Acquisition) observeBehind(_ int64, shown []*mvccpb.KeyValue) {
	for _, kv := range shown {
		a.seeBehind(etcdapi.CreateRevision(kv))
	}
}

// seeBehind closes Wanted's channel if a key created at create is behind the acquisition's keys. It
// is in a range that conflicts with them.
func (a *Acquisition) seeBehind(create int64) {
	a.mu.Lock()
	if !a.wantedOpen() || create <= a.entry.Own.Create {
		a.mu.Unlock()
		return
	}
	a.wanted.found = true
	close(a.wanted.ch)
	unused := a.wanted.take()
	a.mu.Unlock()
	a.s.SetReads(&a.entry, len(a.keys))
	cancel(unused)
}

// take removes the watches, and returns them to be cancelled.
func (w *wanted) take() (unused []*watcher.Watch) {
	for i, one := range w.watches {
		if one.watch != nil {
			unused = append(unused, one.watch)
			w.watches[i].watch = nil
		}
	}
	return unused
}
