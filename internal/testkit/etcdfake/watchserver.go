package etcdfake

import (
	"context"
	"errors"
	"io"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/status"

	"github.com/pawl-locks/pawl/internal/etcdapi"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake/etcd"
)

type watchServer struct {
	pb.UnimplementedWatchServer
	m *Member
}

// Watch sends the events of the stream's watches. Another goroutine handles the client's requests.
func (s *watchServer) Watch(stream pb.Watch_WatchServer) error {
	live, err := s.m.open(stream.Context(), "Watch")
	if err != nil {
		return err
	}
	defer live.close()
	s.m.c.wg.Go(func() { // ends when the handler returns, because the stream ends with it
		if err := s.requests(live, stream); err != nil {
			live.cancel(err)
		}
	})
	progress := time.NewTicker(s.m.c.opts.ProgressTick)
	defer progress.Stop()
	for {
		select {
		case <-live.watch.ready:
		case <-progress.C:
			s.m.c.mu.Lock()
			live.watch.tick()
			s.m.c.mu.Unlock()
		case <-live.ctx.Done():
			return cause(live.ctx, errWatchCanceled)
		case <-s.m.c.done:
			return errStopped
		}
		if err := s.flush(live, stream); err != nil {
			return err
		}
	}
}

func (s *watchServer) flush(live *liveStream, stream pb.Watch_WatchServer) error {
	s.m.c.mu.Lock()
	queue := live.watch.take()
	edits := s.m.edits
	fragment := map[int64]bool{}
	for id, w := range live.watch.watches {
		fragment[id] = w.fragment
	}
	s.m.c.mu.Unlock()
	for _, r := range queue {
		for _, r := range edited(edits, r) {
			for _, part := range s.split(r, fragment[r.WatchId]) {
				s.m.counts.add(&s.m.counts.sent, "Watch")
				if err := stream.Send(part); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// split cuts an answer that is too large into fragments of whole events.
func (s *watchServer) split(r *pb.WatchResponse, wanted bool) []*pb.WatchResponse {
	limit := s.m.c.opts.MaxFragment
	if !wanted || len(r.Events) < 2 || etcdapi.Size(r) < limit {
		return []*pb.WatchResponse{r}
	}
	var parts []*pb.WatchResponse
	part := func() *pb.WatchResponse {
		return &pb.WatchResponse{Header: r.Header, WatchId: r.WatchId, Fragment: true}
	}
	cur := part()
	for _, e := range r.Events {
		cur.Events = append(cur.Events, e)
		if n := len(cur.Events); n > 1 && etcdapi.Size(cur) >= limit {
			cur.Events = cur.Events[:n-1]
			parts = append(parts, cur)
			cur = part()
			cur.Events = []*mvccpb.Event{e}
		}
	}
	cur.Fragment = false
	return append(parts, cur)
}

// requests handles what the client sends. When the client will send no more, the watches continue.
func (s *watchServer) requests(live *liveStream, stream pb.Watch_WatchServer) error {
	for {
		r, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		req := Request{Member: s.m, Method: "Watch", Message: r}
		s.m.counts.add(&s.m.counts.received, req.Method)
		_, err = s.m.exchange(live.ctx, req, func(ctx context.Context) (etcdapi.Message, error) {
			s.m.c.mu.Lock()
			defer s.m.c.mu.Unlock()
			s.handle(ctx, live.watch, r)
			return nil, nil
		})
		if err != nil && !errors.Is(err, errSilence) {
			return err
		}
	}
}

// handle does what one message of the client requests. The caller holds c.mu.
func (s *watchServer) handle(ctx context.Context, ws *watchStream, r *pb.WatchRequest) {
	switch u := r.RequestUnion.(type) {
	case *pb.WatchRequest_CreateRequest:
		s.create(ctx, ws, u.CreateRequest)
	case *pb.WatchRequest_CancelRequest:
		id := u.CancelRequest.WatchId
		if _, ok := ws.watches[id]; ok {
			delete(ws.watches, id)
			ws.push(&pb.WatchResponse{Header: ws.header(s.m.revision()), WatchId: id, Canceled: true})
		}
	case *pb.WatchRequest_ProgressRequest:
		ws.allProgress()
	}
}

func (s *watchServer) create(ctx context.Context, ws *watchStream, r *pb.WatchCreateRequest) {
	answer := &pb.WatchResponse{Header: ws.header(s.m.revision()), WatchId: noWatch, Created: true, Canceled: true}
	if r.StartRevision < 0 {
		answer.CancelReason = status.Convert(rpctypes.ErrGRPCCompacted).Message()
		ws.push(answer)
		return
	}
	if err := s.permitted(ctx, r); err != nil {
		answer.CancelReason = err.Error()
		ws.push(answer)
		return
	}
	id, err := ws.add(r)
	if err != nil {
		answer.CancelReason = err.Error()
		ws.push(answer)
		return
	}
	answer.WatchId, answer.Canceled = id, false
	ws.push(answer)
	ws.catchUp(ws.watches[id])
}

func (s *watchServer) permitted(ctx context.Context, r *pb.WatchCreateRequest) error {
	who, err := s.m.who(ctx)
	if err != nil {
		return err
	}
	key := r.Key
	if len(key) == 0 {
		key = []byte(etcd.FromKey)
	}
	return s.m.c.state.MayRange(who, key, r.RangeEnd)
}

// tick sends progress to the watches that asked for it.
func (s *watchStream) tick() {
	rev := s.m.revision()
	for id, w := range s.watches {
		if w.progress && !w.compacted && rev >= w.start {
			s.push(&pb.WatchResponse{Header: s.header(rev), WatchId: id})
		}
	}
}
