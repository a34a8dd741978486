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
	topic    *topic // the topic, in no list; nil: an echo's, or one that is handled already
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
	t, res := a.topic, outcome{answered: true}
	switch {
	case r.Canceled || r.WatchId == -1:
		tb.forget(a.id)
		out, res.topic = tb.compacted(t, r.CompactRevision, out)
		res.refused, res.reason = true, r.CancelReason
		return out, res
	case t == nil: // an echo that the server accepted
		tb.cancels = append(tb.cancels, a.id)
		return out, res
	}
	t.state = living
	tb.live[a.id] = t
	if t.subs.empty() {
		tb.cancel(t)
		tb.remove(t)
		return out, res
	}
	for w := range t.subs.all {
		w.armed.Store(true)
	}
	out, res.err = tb.deliver(r, out)
	return out, res
}

// indexOf is the index in requests of the creation of id; below 0: it is not there.
func (tb *table) indexOf(id int64) int {
	return slices.IndexFunc(tb.requests, func(a request) bool { return a.id == id })
}

// deliver delivers the events of an answer to their topic. Answers for removed topics have
// none.
func (tb *table) deliver(r *pb.WatchResponse, out []delivery) ([]delivery, error) {
	t := tb.live[r.WatchId]
	if i := tb.indexOf(r.WatchId); t == nil && i >= 0 {
		t = tb.requests[i].topic // etcd acknowledges first, but should events come earlier they would be lost otherwise
	}
	if t == nil {
		return out, nil
	}
	events, rest := advance(t.span, !t.wide, t.next, tb.held[r.WatchId], r.Events, r.Fragment)
	if len(rest) > maxHeld {
		return out, errBloat
	}
	tb.hold(r.WatchId, rest)
	if len(events) == 0 {
		return out, nil
	}
	return t.deliver(events, out), nil
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
	t := tb.live[r.WatchId]
	if t == nil {
		return out, outcome{}
	}
	tb.forget(r.WatchId)
	if r.CompactRevision > t.next {
		// etcd keeps a compacted watch, which also prevents answers to progress requests, until
		// it is cancelled.
		tb.cancels = append(tb.cancels, r.WatchId)
	}
	out, t = tb.compacted(t, r.CompactRevision, out)
	return out, outcome{refused: true, topic: t, reason: r.CancelReason}
}

// compacted ends the subscribers of t, which is in no list, that miss events because revisions
// below rev are compacted. If rev does not affect t it returns t; otherwise t is created again
// for the others, or removed.
func (tb *table) compacted(t *topic, rev int64, out []delivery) ([]delivery, *topic) {
	if t == nil {
		return out, nil
	}
	missed := false
	for w := range t.subs.all {
		if t.needs(w) < rev {
			t.subs.remove(w)
			out, missed = append(out, delivery{w, Update{Compacted: rev}, true}), true
		}
	}
	switch {
	case t.subs.empty():
		tb.remove(t)
		return out, nil
	case missed:
		tb.enqueue(t)
		return out, nil
	}
	t.state, t.id = nowhere, 0
	return out, t
}
