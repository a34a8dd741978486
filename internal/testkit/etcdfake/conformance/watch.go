package conformance

import (
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// watches is one stream. Events are noted watch by watch, since how they are
// cut into answers depends on how far behind a watch is.
type watches struct {
	r      *rig
	stream pb.Watch_WatchClient
	got    map[int64][]*mvccpb.Event
}

func (r *rig) watches() *watches {
	s, err := r.watcher.Watch(r.ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	return &watches{r, s, map[int64][]*mvccpb.Event{}}
}

func (w *watches) ask(m *pb.WatchRequest) {
	if err := w.stream.Send(m); err != nil {
		w.r.t.Fatal(err)
	}
}

func (w *watches) create(m *pb.WatchCreateRequest) {
	w.ask(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: m}})
}

func (w *watches) cancel(id int64) {
	w.ask(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CancelRequest{CancelRequest: &pb.WatchCancelRequest{WatchId: id}}})
}

func (w *watches) progress() {
	w.ask(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_ProgressRequest{ProgressRequest: &pb.WatchProgressRequest{}}})
}

// next notes one answer as it is.
func (w *watches) next() {
	resp, err := w.stream.Recv()
	w.r.note("watch", resp, err)
}

// events notes the next n events of each of the watches. No server promises in which order it sends
// one revision to the watches of a stream.
func (w *watches) events(n int, ids ...int64) {
	for _, id := range ids {
		for len(w.got[id]) < n {
			resp, err := w.stream.Recv()
			if err != nil || len(resp.Events) == 0 {
				w.r.t.Fatalf("in place of events of %d: %v, %v", id, resp, err)
			}
			w.got[resp.WatchId] = append(w.got[resp.WatchId], resp.Events...)
		}
		w.r.note(fmt.Sprint("events of ", id), &pb.WatchResponse{Events: w.got[id][:n]}, nil)
		w.got[id] = w.got[id][n:]
	}
}

var watchScripts = []script{
	{"the present", func(r *rig) {
		w := r.watches()
		w.create(&pb.WatchCreateRequest{Key: []byte("a")})
		w.next()
		w.create(&pb.WatchCreateRequest{Key: []byte("a"), RangeEnd: []byte("c")})
		w.next()
		w.create(&pb.WatchCreateRequest{Key: []byte("b"), RangeEnd: []byte("\x00"), WatchId: 77, PrevKv: true})
		w.next()
		r.puts("a")
		w.events(1, 0, 1)
		r.puts("b")
		w.events(1, 1, 77)
		r.puts("b", "z")
		w.events(1, 1)
		w.events(2, 77)
		r.del(&pb.DeleteRangeRequest{Key: []byte("b")})
		w.events(1, 1, 77)
		r.del(&pb.DeleteRangeRequest{Key: []byte("b")})
		r.txn(&pb.TxnRequest{Success: ops(opPut(kput("a", "x")), opPut(kput("b", "y")), opDel(&pb.DeleteRangeRequest{Key: []byte("z")}))})
		w.events(1, 0)
		w.events(2, 1, 77)
	}},
	{"header of events", func(r *rig) {
		w := r.watches()
		w.create(&pb.WatchCreateRequest{Key: []byte("a")})
		w.next()
		r.puts("b", "a")
		w.next()
		r.puts("b")
		w.create(&pb.WatchCreateRequest{Key: []byte("c")})
		w.next()
	}},
	{"past and future", func(r *rig) {
		r.puts("a", "b", "a")
		r.del(&pb.DeleteRangeRequest{Key: []byte("a")})
		w := r.watches()
		w.create(&pb.WatchCreateRequest{Key: []byte("a"), StartRevision: 2})
		w.next()
		w.events(3, 0)
		w.create(&pb.WatchCreateRequest{Key: []byte("a"), StartRevision: 4, PrevKv: true})
		w.next()
		w.events(2, 1)
		w.create(&pb.WatchCreateRequest{Key: []byte("b"), StartRevision: 8})
		w.next()
		r.puts("b", "b", "b")
		w.events(1, 2)
	}},
	{"filters", func(r *rig) {
		w := r.watches()
		w.create(&pb.WatchCreateRequest{Key: []byte("a"), Filters: []pb.WatchCreateRequest_FilterType{pb.WatchCreateRequest_NOPUT}})
		w.next()
		w.create(&pb.WatchCreateRequest{Key: []byte("a"), Filters: []pb.WatchCreateRequest_FilterType{pb.WatchCreateRequest_NODELETE}})
		w.next()
		r.puts("a")
		w.events(1, 1)
		r.del(&pb.DeleteRangeRequest{Key: []byte("a")})
		w.events(1, 0)
	}},
	{"refusals", func(r *rig) {
		w := r.watches()
		w.create(&pb.WatchCreateRequest{Key: []byte("a"), WatchId: 5})
		w.next()
		w.create(&pb.WatchCreateRequest{Key: []byte("a"), WatchId: 5})
		w.next()
		w.create(&pb.WatchCreateRequest{Key: []byte("b"), RangeEnd: []byte("a")})
		w.next()
		w.create(&pb.WatchCreateRequest{Key: []byte("a"), StartRevision: -1})
		w.next()
		w.create(&pb.WatchCreateRequest{Key: []byte("a")})
		w.next()
		r.puts("a")
		w.events(1, 0, 5)
	}},
	{"cancel", func(r *rig) {
		w := r.watches()
		w.create(&pb.WatchCreateRequest{Key: []byte("a")})
		w.next()
		w.cancel(99)
		w.cancel(0)
		w.next()
		r.puts("a")
		w.create(&pb.WatchCreateRequest{Key: []byte("a"), WatchId: 3})
		w.next()
		w.cancel(3)
		w.next()
		w.create(&pb.WatchCreateRequest{Key: []byte("a"), WatchId: 3})
		w.next()
		r.puts("a")
		w.events(1, 3)
	}},
	{"compacted", func(r *rig) {
		r.puts("a", "a", "a", "b")
		r.del(&pb.DeleteRangeRequest{Key: []byte("b")})
		r.puts("c")
		r.compact(6)
		w := r.watches()
		w.create(&pb.WatchCreateRequest{Key: []byte("a"), StartRevision: 3})
		w.next()
		w.next()
		w.create(&pb.WatchCreateRequest{Key: []byte("b"), StartRevision: 6})
		w.next()
		w.events(1, 1)
		w.create(&pb.WatchCreateRequest{Key: []byte("c"), StartRevision: 7})
		w.next()
		w.events(1, 2)
		w.cancel(0)
		w.progress()
		w.next()
	}},
	{"progress", func(r *rig) {
		w := r.watches()
		w.progress()
		w.create(&pb.WatchCreateRequest{Key: []byte("a")})
		w.next()
		r.puts("x")
		w.progress()
		w.next()
		w.create(&pb.WatchCreateRequest{Key: []byte("a"), StartRevision: 9})
		w.next()
		w.progress() // not yet: one watch lies in the future
		r.puts("a")
		w.events(1, 0)
	}},
	{"progress unasked", func(r *rig) {
		w := r.watches()
		w.create(&pb.WatchCreateRequest{Key: []byte("a"), ProgressNotify: true})
		w.next()
		r.puts("x")
		time.Sleep(30 * time.Minute)
		w.next()
	}},
	{"a lease's end", func(r *rig) {
		r.grant(7, 5)
		r.put(&pb.PutRequest{Key: []byte("b"), Lease: 7})
		r.put(&pb.PutRequest{Key: []byte("a"), Lease: 7})
		w := r.watches()
		w.create(&pb.WatchCreateRequest{Key: []byte("a"), RangeEnd: []byte("z"), PrevKv: true})
		w.next()
		w.next()
	}},
}
