package watcher

import (
	"fmt"
	"sync/atomic"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// An Update is passed to a watch's function. It has events, or the end of the watch, after which the
// function is not called again.
type Update struct {
	Events   []Event // in the order of their revisions, only whole revisions, each event once
	Revision int64   // of the last of them

	// Created is above 0, and nothing else set, in the first call of a watch from now: a server
	// has created the watch at this revision or an earlier one. Events of later revisions are
	// delivered; those from the watch's lower bound up to this one may never be.
	Created int64

	// Compacted, if above 0, ends the watch. Some events after those delivered may be missing, because
	// revisions below this one are compacted. Read again, and watch from the revision after that of the
	// read.
	Compacted int64

	// Err, if not nil, ends the watch; see the package's comment.
	Err error
}

// A Watch is one call of [Hub.Watch]. Its methods may be called from any goroutine, even from
// within its function.
type Watch struct {
	hub       *Hub
	fn        func(Update)
	span      span
	deletions bool // it is called with deletions only
	now       bool // it begins at the revision at which a server first creates it; see Update.Created

	// Guarded by Hub.mu.
	home     *stream
	next     int64 // the lowest revision not delivered; only events move it
	stage    stage
	id       int64 // of its creation; 0 if there is none
	refusals *refusals
	wanted   bool // neither cancelled nor ended
	armed    bool // a server has acknowledged its creation

	stopped atomic.Bool // no further call
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

// creation is the request for w, with its id.
func (w *Watch) creation() *pb.WatchRequest {
	r := &pb.WatchCreateRequest{Key: []byte(w.span.key), StartRevision: w.start(), WatchId: w.id}
	if w.span.end != "" {
		r.RangeEnd = []byte(w.span.end)
	}
	if w.deletions {
		r.Filters = noPuts
	}
	return creation(r)
}

var noPuts = []pb.WatchCreateRequest_FilterType{pb.WatchCreateRequest_NOPUT}

// start is the revision from which a creation requests events; 0 means the present. Only the first
// creation that a server acknowledges can begin at the present. What happens after that is not reported
// as missed, so a watch resumes at the revision that it had reached.
func (w *Watch) start() int64 {
	if w.now && !w.armed {
		return 0
	}
	return w.next
}

// call calls fn, unless the watch was cancelled. Only the watch's stream calls it, in one goroutine at
// a time.
func (w *Watch) call(u Update) {
	if u.Err != nil {
		u.Err = fmt.Errorf("watch %q: %w", w.span.key, u.Err)
	}
	if !w.stopped.Load() {
		w.fn(u)
	}
}

// Cancel ends the watch. No call of its function starts after Cancel returned, but one may be in
// progress. If the watch was created at a server, it is cancelled there a moment later, together with
// others, because a message that is sent alone costs both ends several times as much as one of many. If
// the creation was not sent yet, nothing is sent. Cancel never blocks. It may be called from within the
// function, while holding locks that the function takes, and more than once.
func (w *Watch) Cancel() {
	w.stopped.Store(true)
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	if !w.wanted {
		return
	}
	w.wanted = false
	switch s := w.home; {
	case s.table.leave(w):
		if !s.sweeps {
			s.sweeps = true
			s.sweep.Reset(sweepAfter)
		}
	case s.table.size == 0:
		s.nudge() // the stream may have nothing left to wait for
	}
}
