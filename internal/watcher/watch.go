package watcher

import (
	"fmt"
	"sync/atomic"
)

// An Update is what a watch's function is called with: events, or the end of the watch, after which it
// is not called again.
type Update struct {
	Events   []Event // in the order of their revisions, only whole revisions, each event once
	Revision int64   // of the last of them

	// Created is above 0, and nothing else set, in the first call of a watch from now: a server
	// has created the watch at this revision or an earlier one. Events of later revisions are
	// delivered; those from the watch's lower bound up to this one may never be.
	Created int64

	// Compacted, if above 0, ends the watch: some events after those delivered may be missing,
	// because revisions below this one are compacted. Read again, and watch from the revision
	// after that of the read.
	Compacted int64

	// Err, if not nil, ends the watch: see the package's comment.
	Err error
}

// A Watch is one call of [Hub.Watch]. Its methods may be called from any goroutine, even from
// within its function.
type Watch struct {
	hub       *Hub
	fn        func(Update)
	span      span
	deletions bool // it is called with deletions only
	now       bool // it begins at the revision at which a server first creates it, see Update.Created

	// Guarded by Hub.mu.
	links
	home     *stream
	next     int64 // the lowest revision not delivered; only events move it
	stage    stage
	id       int64 // of its creation; 0 if there is none
	refusals *refusals
	wanted   bool // neither cancelled nor ended

	armed atomic.Bool
	state atomic.Uint32
}

// stage says where in its table a Watch is.
type stage uint8

const (
	nowhere   stage = iota
	queued          // waits to be created
	requested       // its creation was sent and is unanswered
	living          // its creation is acknowledged
	delayed         // was refused; created again later
)

// The states of a Watch's function. The caller of fn first changes quiet to calling, so that Cancel either
// finds the call begun or prevents it.
const (
	quiet uint32 = iota
	calling
	cancelled        // or ended
	callingCancelled // no further call
)

// start is the revision from which a creation asks for events; 0: the present. Only the first
// creation that a server acknowledges can begin at the present: what happened later is not
// reported as missed, so a watch that resumes does so where it was.
func (w *Watch) start() int64 {
	if w.now && !w.armed.Load() {
		return 0
	}
	return w.next
}

// call calls fn, unless the watch was cancelled. Only the watch's stream calls it, in its turn.
func (w *Watch) call(u Update) {
	if !w.state.CompareAndSwap(quiet, calling) {
		return
	}
	w.fn(u)
	if !w.state.CompareAndSwap(calling, quiet) {
		w.state.Store(cancelled)
	}
}

// last is call with the update that ends the watch.
func (w *Watch) last(u Update) {
	if u.Err != nil {
		u.Err = fmt.Errorf("watch %q: %w", w.span.key, u.Err)
	}
	if w.state.CompareAndSwap(quiet, callingCancelled) {
		w.fn(u)
		w.state.Store(cancelled)
	}
}

// stop prevents further calls.
func (w *Watch) stop() {
	for {
		switch s := w.state.Load(); s {
		case quiet:
			if w.state.CompareAndSwap(quiet, cancelled) {
				return
			}
		case calling:
			if w.state.CompareAndSwap(calling, callingCancelled) {
				return
			}
		default:
			return
		}
	}
}

// Cancel ends the watch. No call of its function starts after Cancel returned; one may be in
// progress. If the watch was created at a server, it is cancelled there; for one that was not
// created yet nothing is sent. Cancel never blocks. It
// may be called from within the function, while holding locks that the function takes, and more
// than once.
func (w *Watch) Cancel() {
	w.stop()
	w.hub.cancel(w)
}

// Armed reports whether a server has ever acknowledged the creation of this watch. It does not
// show the current state.
func (w *Watch) Armed() bool { return w.armed.Load() }
