package watcher

import (
	"errors"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// outcome is what an answer means, besides the calls.
type outcome struct {
	answered bool   // an unanswered creation was answered
	refused  bool   // a creation was refused, or ended, for reason
	watch    *Watch // the watch, in no list; nil for an echo, or if it is handled already
	reason   string
	err      error // the link has to be ended
}

var (
	errOrder = errors.New("creations are answered out of order")
	errBloat = errors.New("a fragmented revision is too long")
)

// maxHeld bounds the held events of one revision, which may come in fragments although
// fragments were not requested.
const maxHeld = 1 << 20

// answer processes a server's answer.
func (tb *table) answer(r *pb.WatchResponse, out []delivery) ([]delivery, outcome) {
	if r.Created {
		return tb.answered(r, out)
	}
	out, err := tb.deliver(r, out)
	if err != nil || !r.Canceled && r.CompactRevision == 0 {
		return out, outcome{err: err}
	}
	return tb.ended(r, out)
}

// answered processes the answer to the first unanswered creation: etcd answers creations in
// order. A refusal has the watch ID -1, which does not show which creation was refused; any
// other ID must be the one we gave, or the answer is a repetition.
func (tb *table) answered(r *pb.WatchResponse, out []delivery) ([]delivery, outcome) {
	switch i := tb.indexOf(r.WatchId); {
	case len(tb.requests) == 0 || i < 0 && r.WatchId != -1:
		return out, outcome{}
	case i > 0:
		return out, outcome{err: errOrder}
	}
	a := tb.requests[0]
	tb.bytes -= a.bytes
	if tb.requests = tb.requests[1:]; len(tb.requests) == 0 {
		tb.requests = nil // frees the memory of all requests
	}
	w, res := a.watch, outcome{answered: true}
	switch {
	case r.Canceled || r.WatchId == -1:
		tb.forget(a.id)
		out, res.watch = tb.compacted(w, r.CompactRevision, out)
		res.refused, res.reason = true, r.CancelReason
		return out, res
	case w == nil: // an echo that the server accepted
		tb.cancels = append(tb.cancels, a.id)
		return out, res
	case !w.wanted:
		tb.forget(a.id)
		tb.cancels = append(tb.cancels, a.id)
		tb.remove(w)
		return out, res
	}
	w.stage = living
	tb.live[a.id] = w
	if first := !w.armed.Swap(true); first && w.now {
		out = append(out, delivery{w, Update{Created: r.GetHeader().GetRevision()}, false})
	}
	out, res.err = tb.deliver(r, out)
	return out, res
}

// indexOf is the index in requests of the creation of id, or negative if it is not there.
func (tb *table) indexOf(id int64) int {
	return slices.IndexFunc(tb.requests, func(a request) bool { return a.id == id })
}

// deliver delivers the events of an answer to their watch, if it is still there.
func (tb *table) deliver(r *pb.WatchResponse, out []delivery) ([]delivery, error) {
	w := tb.live[r.WatchId]
	if i := tb.indexOf(r.WatchId); w == nil && i >= 0 {
		w = tb.requests[i].watch // etcd acknowledges first, but should events come earlier they would be lost otherwise
	}
	if w == nil {
		return out, nil
	}
	events, rest := advance(w.span, w.deletions, w.next, tb.held[r.WatchId], r.Events, r.Fragment)
	if len(rest) > maxHeld {
		return out, errBloat
	}
	tb.hold(r.WatchId, rest)
	if len(events) == 0 {
		return out, nil
	}
	last := events[len(events)-1].ModRevision
	w.next = last + 1
	return append(out, delivery{w, Update{Events: events, Revision: last}, false}), nil
}

// hold keeps evs instead of what was held back for this creation.
func (tb *table) hold(id int64, evs []*mvccpb.Event) {
	if len(evs) == 0 {
		delete(tb.held, id)
		return
	}
	if tb.held == nil {
		tb.held = map[int64][]*mvccpb.Event{}
	}
	tb.held[id] = evs
}

// ended processes the server's notice that a creation has ended there. It expects one for those
// that we cancelled.
func (tb *table) ended(r *pb.WatchResponse, out []delivery) ([]delivery, outcome) {
	w := tb.live[r.WatchId]
	if w == nil {
		return out, outcome{}
	}
	tb.forget(r.WatchId)
	if r.CompactRevision > w.next {
		// etcd keeps a compacted watch, which also prevents answers to progress requests, until
		// it is cancelled.
		tb.cancels = append(tb.cancels, r.WatchId)
	}
	out, w = tb.compacted(w, r.CompactRevision, out)
	return out, outcome{refused: true, watch: w, reason: r.CancelReason}
}

// compacted ends w, which is in no list, if it misses events because revisions below rev are
// compacted, and removes it if it is no longer wanted. Otherwise it returns it.
func (tb *table) compacted(w *Watch, rev int64, out []delivery) ([]delivery, *Watch) {
	switch {
	case w == nil:
		return out, nil
	case !w.wanted:
		tb.remove(w)
		return out, nil
	case w.next < rev:
		return tb.end(w, Update{Compacted: rev}, out), nil
	}
	w.stage, w.id = nowhere, 0
	return out, w
}
