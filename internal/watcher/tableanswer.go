package watcher

import (
	"errors"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// outcome is the result of an answer, besides the calls.
type outcome struct {
	answered bool   // an unanswered creation was answered
	refused  *Watch // the watch whose creation was refused, or ended, for reason; it is in no list
	reason   string
	err      error // the link has to be ended
}

var errOrder = errors.New("creations are answered out of order")

// answer processes a server's answer.
func (tb *table) answer(r *pb.WatchResponse) outcome {
	if r.Created {
		return tb.answered(r)
	}
	tb.deliver(r)
	if !r.Canceled && r.CompactRevision == 0 {
		return outcome{}
	}
	return tb.ended(r)
}

// answered processes the answer to the first unanswered creation, because etcd answers creations in
// order. A refusal has the watch ID -1, which does not show which creation was refused. Any other ID
// must be the one in the request, or the answer is a repetition.
func (tb *table) answered(r *pb.WatchResponse) outcome {
	switch i := tb.indexOf(r.WatchId); {
	case len(tb.requests) == 0 || i < 0 && r.WatchId != -1:
		return outcome{}
	case i > 0:
		return outcome{err: errOrder}
	}
	a := tb.requests[0]
	tb.bytes -= a.bytes
	if tb.requests = tb.requests[1:]; len(tb.requests) == 0 {
		tb.requests = nil // frees the memory of all requests
	}
	w := a.watch
	switch {
	case r.Canceled || r.WatchId == -1:
		return outcome{answered: true, refused: tb.compacted(w, r.CompactRevision), reason: r.CancelReason}
	case w == nil: // an echo that the server accepted
		tb.cancels = append(tb.cancels, a.id)
	case !w.wanted:
		tb.cancels = append(tb.cancels, a.id)
		tb.remove(w)
	default:
		tb.acknowledged(w, r)
	}
	return outcome{answered: true}
}

// acknowledged processes the creation of w by the server.
func (tb *table) acknowledged(w *Watch, r *pb.WatchResponse) {
	w.stage = living
	tb.live[w.id] = w
	if w.now && !w.armed {
		tb.calls = append(tb.calls, delivery{w, Update{Created: r.GetHeader().GetRevision()}})
	}
	w.armed = true
	tb.deliver(r)
}

// indexOf is the index in requests of the creation of id, or negative if it is not there.
func (tb *table) indexOf(id int64) int {
	return slices.IndexFunc(tb.requests, func(a request) bool { return a.id == id })
}

// deliver delivers the events of an answer to their watch, if it is still there.
func (tb *table) deliver(r *pb.WatchResponse) {
	w := tb.live[r.WatchId]
	if i := tb.indexOf(r.WatchId); w == nil && i >= 0 {
		w = tb.requests[i].watch // etcd acknowledges first, but if events came earlier they would otherwise be lost
	}
	if w == nil {
		return
	}
	events := sift(w.span, w.deletions, w.next, r.Events)
	if len(events) == 0 {
		return
	}
	last := events[len(events)-1].ModRevision
	w.next = last + 1
	tb.calls = append(tb.calls, delivery{w, Update{Events: events, Revision: last}})
}

// ended processes the server's notice that a creation has ended there. The server also sends one for
// each creation that was cancelled from here.
func (tb *table) ended(r *pb.WatchResponse) outcome {
	w := tb.live[r.WatchId]
	if w == nil {
		return outcome{}
	}
	delete(tb.live, r.WatchId)
	if r.CompactRevision > w.next {
		// etcd keeps a compacted watch, which also prevents answers to progress requests, until
		// it is cancelled.
		tb.cancels = append(tb.cancels, r.WatchId)
	}
	return outcome{refused: tb.compacted(w, r.CompactRevision), reason: r.CancelReason}
}

// compacted ends w, which is in no list, if it misses events because revisions below rev are
// compacted, and removes it if it is no longer wanted. Otherwise it returns it. A nil w is an echo.
func (tb *table) compacted(w *Watch, rev int64) *Watch {
	switch {
	case w == nil:
		return nil
	case !w.wanted:
		tb.remove(w)
		return nil
	case w.next < rev:
		tb.end(w, Update{Compacted: rev})
		return nil
	}
	w.stage, w.id = nowhere, 0
	return w
}
