package etcdfake

import (
	"errors"
	"maps"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/pawl-locks/pawl/internal/etcdapi"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake/etcd"
)

const noWatch = -1 // the watch_id of refusals, and of a whole stream's progress

var (
	errEmptyRange  = errors.New("mvcc: watcher range is empty")
	errDuplicateID = errors.New("mvcc: duplicate watch ID provided on the WatchStream")
)

// watchStream is the state of one Watch stream. The cluster's mutex guards it.
type watchStream struct {
	m       *Member
	watches map[int64]*watcher
	nextID  int64
	queue   []*pb.WatchResponse // to be sent
	ready   chan struct{}       // holds one when the queue may have grown
}

// watcher is one watch. It has been sent every event before next that it wants.
type watcher struct {
	id           int64
	key, end     string
	start, next  int64
	prevKV       bool
	fragment     bool
	progress     bool
	noPut, noDel bool
	// compacted is set if it ended by compaction. The server keeps it until it is cancelled, so its
	// ID stays taken, and the stream's progress unknown.
	compacted bool
}

func newWatchStream(m *Member) *watchStream {
	return &watchStream{m: m, watches: map[int64]*watcher{}, ready: make(chan struct{}, 1)}
}

func (s *watchStream) push(r *pb.WatchResponse) {
	s.queue = append(s.queue, r)
	select {
	case s.ready <- struct{}{}:
	default:
	}
}

// take returns what is to be sent.
func (s *watchStream) take() []*pb.WatchResponse {
	q := s.queue
	s.queue = nil
	return q
}

func (s *watchStream) header(rev int64) *pb.ResponseHeader {
	h := s.m.fill(&pb.ResponseHeader{})
	h.Revision = rev
	return h
}

// add begins a watch; the member has checked the permission.
func (s *watchStream) add(r *pb.WatchCreateRequest) (int64, error) {
	w := &watcher{
		id: r.WatchId, key: string(r.Key), end: string(r.RangeEnd),
		start: r.StartRevision, next: r.StartRevision,
		prevKV: r.PrevKv, fragment: r.Fragment, progress: r.ProgressNotify,
		noPut: slices.Contains(r.Filters, pb.WatchCreateRequest_NOPUT),
		noDel: slices.Contains(r.Filters, pb.WatchCreateRequest_NODELETE),
	}
	if w.key == "" {
		w.key = etcd.FromKey // the smallest key
	}
	if w.end != "" && w.end != etcd.FromKey && w.key >= w.end {
		return noWatch, errEmptyRange
	}
	if w.id == 0 {
		for s.watches[s.nextID] != nil {
			s.nextID++
		}
		w.id = s.nextID
		s.nextID++
	} else if s.watches[w.id] != nil {
		return noWatch, errDuplicateID
	}
	if w.next == 0 {
		w.next = s.m.revision() + 1
	}
	s.watches[w.id] = w
	return w.id, nil
}

// pump sends every watch the events that it has not been sent.
func (s *watchStream) pump() {
	for _, id := range slices.Sorted(maps.Keys(s.watches)) {
		s.catchUp(s.watches[id])
	}
}

// catchUp sends a watch everything that happened, starting at next, as far as the member sees, or
// that this was compacted.
func (s *watchStream) catchUp(w *watcher) {
	st := s.m.c.state.Store
	now := s.m.revision()
	if w.compacted || w.next > now {
		return
	}
	if w.next < st.Compacted {
		w.compacted = true
		s.push(&pb.WatchResponse{
			Header: s.header(0), WatchId: w.id, Canceled: true, CompactRevision: st.Compacted,
		})
		return
	}
	var events []*mvccpb.Event
	for _, c := range st.Since(w.next) {
		if c.Rev <= now && w.wants(c.Event) {
			events = append(events, c.Event)
		}
	}
	w.next = now + 1
	s.send(w, events, now)
}

// send sends events to one watch, if there are any.
func (s *watchStream) send(w *watcher, events []*mvccpb.Event, rev int64) {
	if len(events) == 0 {
		return
	}
	if w.prevKV {
		events = s.withPrevious(events)
	}
	s.push(&pb.WatchResponse{Header: s.header(rev), WatchId: w.id, Events: events})
}

// committed sends the watches one new revision.
func (s *watchStream) committed(events []*mvccpb.Event) {
	rev := events[0].Kv.ModRevision
	mine := map[int64][]*mvccpb.Event{}
	for id, w := range s.watches {
		if w.compacted || w.next > rev {
			continue
		}
		w.next = rev + 1
		for _, e := range events {
			if w.wants(e) {
				mine[id] = append(mine[id], e)
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(mine)) {
		s.send(s.watches[id], mine[id], rev)
	}
}

// seenUpTo notes that the watches have seen everything until rev.
func (s *watchStream) seenUpTo(rev int64) {
	for _, w := range s.watches {
		w.next = max(w.next, rev+1)
	}
}

func (w *watcher) wants(e *mvccpb.Event) bool {
	if e.Type == etcdapi.EventPut && w.noPut || e.Type == etcdapi.EventDelete && w.noDel {
		return false
	}
	return etcd.InRange(string(e.Kv.Key), w.key, w.end)
}

func (s *watchStream) withPrevious(events []*mvccpb.Event) []*mvccpb.Event {
	st := s.m.c.state.Store
	out := make([]*mvccpb.Event, len(events))
	for i, e := range events {
		out[i] = &mvccpb.Event{Type: e.Type, Kv: e.Kv}
		key := string(e.Kv.Key)
		if old, ok := st.At(key, e.Kv.ModRevision-1); ok && e.Kv.ModRevision-1 >= st.Compacted {
			out[i].PrevKv = old.Kv(key)
		}
	}
	return out
}

// allProgress reports progress on all watches at once, if there are any and
// all have come that far.
func (s *watchStream) allProgress() {
	rev := s.m.revision()
	for _, w := range s.watches {
		if w.compacted || rev < w.start {
			return
		}
	}
	if len(s.watches) > 0 {
		s.push(&pb.WatchResponse{Header: s.header(rev), WatchId: noWatch})
	}
}

// notify passes one new revision to the member's watches. The caller holds c.mu.
func (m *Member) notify(events []*mvccpb.Event) {
	for s := range m.streams {
		if s.watch != nil {
			s.watch.committed(events)
		}
	}
}
