package simulate

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/pawl-locks/pawl/internal/testkit/etcdfake/etcd"
	"github.com/pawl-locks/pawl/test/etcdtest/embedded"
)

// solo is a real etcd with one member.
type solo struct {
	s    *embedded.Server
	net  network
	conn *grpc.ClientConn // the oracle's and the operator's
	end  context.CancelFunc
	bg   sync.WaitGroup
}

// OnSolo starts a real server for a scenario.
func OnSolo(t *testing.T, w *scenario) server {
	s := &solo{s: embedded.Start(t, embedded.Options{})}
	var err error
	s.conn, err = grpc.NewClient("passthrough:///"+s.s.Endpoints()[0], s.s.DialOption(),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	s.end = end
	stream, err := pb.NewWatchClient(s.conn).Watch(ctx)
	for _, queues := range []string{names[0], semaphore(names[0]), teamKeys().Prefix} {
		if err == nil {
			err = stream.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{
				CreateRequest: &pb.WatchCreateRequest{Key: []byte(queues), RangeEnd: []byte(queues + "\xff")}}})
		}
		if err == nil {
			_, err = stream.Recv() // now it is watching
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	s.bg.Go(func() { // ends with ctx
		for r, err := stream.Recv(); err == nil; r, err = stream.Recv() {
			for _, ev := range r.Events {
				if ev.Type == mvccpb.Event_DELETE {
					w.truth.gone(string(ev.Kv.Key), ev.Kv.ModRevision, etcd.ByExpiry) // it does not say
				} else {
					w.truth.put(string(ev.Kv.Key), ev.Kv.CreateRevision, ev.Kv.Version == 1, false)
				}
			}
		}
	})
	return s
}

func (s *solo) endpoints() []string { return s.s.Endpoints() }

func (s *solo) options(client int) []grpc.DialOption {
	return append(append(lean(), s.net.options(client)...), s.s.DialOption())
}

func (s *solo) calm() { s.net.liftAll() }

func (s *solo) close() {
	s.net.late.Wait()
	s.end()
	s.bg.Wait()
	_ = s.conn.Close()
	s.s.Stop()
}

func (s *solo) left() (left []string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r, err := pb.NewKVClient(s.conn).Range(ctx, &pb.RangeRequest{Key: []byte{0}, RangeEnd: []byte{0}, KeysOnly: true})
	if err != nil {
		return []string{err.Error()}
	}
	for _, kv := range r.Kvs {
		if string(kv.Key) != "data" && !isRecord(string(kv.Key)) {
			left = append(left, string(kv.Key))
		}
	}
	l, err := pb.NewLeaseClient(s.conn).LeaseLeases(ctx, &pb.LeaseLeasesRequest{})
	if err != nil || len(l.Leases) > 0 {
		left = append(left, fmt.Sprint("leases: ", l, err))
	}
	return left
}

// soloKinds are the faults between clients and a real server.
var soloKinds = []string{
	"lose requests", "lose answers", "lose an answer", "delay", "again", "error", "error after", "mute streams", "end streams",
	"compact", "operator deletes", "operator overwrites", "operator revokes",
}

func (s *solo) strike(w *scenario, st Strike) (heal func()) {
	delay := time.Duration(st.N%2000+1) * time.Millisecond
	refusal, err := errs[st.N%len(errs)], errs[st.N%ambiguous]
	r := &rule{client: st.Client, method: methods[st.N%len(methods)], times: 1 + st.N%4}
	if st.N%3 == 0 {
		r.client = -1
	}
	if st.N%5 != 0 {
		r.times = -1
	}
	switch st.Kind {
	case "lose requests":
		r.lost = true
	case "lose answers":
		r.hang = true
	case "lose an answer":
		r.hang, r.times = true, 1
	case "delay":
		r.delay = delay
	case "again":
		r.again, r.err = delay, err
	case "error":
		r.lost, r.err = true, refusal
	case "error after":
		r.err = err
	case "mute streams":
		r.mute = true
	case "end streams":
		r.mute, r.err, r.times = true, err, 1
	default:
		s.operate(w, st)
		return func() {}
	}
	return s.net.add(r)
}

// operate does what an operator does, to somebody's key or to the server.
func (s *solo) operate(w *scenario, st Strike) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	kv := pb.NewKVClient(s.conn)
	keys := w.truth.at()
	if st.Kind == "compact" {
		if r, err := kv.Range(ctx, &pb.RangeRequest{Key: []byte("x")}); err == nil {
			_, _ = kv.Compact(ctx, &pb.CompactionRequest{Revision: r.Header.Revision})
		}
		return
	}
	if len(keys) == 0 {
		return
	}
	key := keys[st.N%len(keys)]
	r, err := kv.Range(ctx, &pb.RangeRequest{Key: []byte(key)})
	if err != nil || len(r.Kvs) == 0 {
		return
	}
	lease := r.Kvs[0].Lease
	if st.Kind == "operator revokes" {
		for _, k := range keys {
			if o, err := kv.Range(ctx, &pb.RangeRequest{Key: []byte(k)}); err == nil && len(o.Kvs) > 0 && o.Kvs[0].Lease == lease {
				w.truth.meddle(k, false)
			}
		}
		_, _ = pb.NewLeaseClient(s.conn).LeaseRevoke(ctx, &pb.LeaseRevokeRequest{ID: lease})
		return
	}
	w.truth.meddle(key, st.Kind == "operator overwrites")
	if st.Kind == "operator deletes" {
		_, _ = kv.DeleteRange(ctx, &pb.DeleteRangeRequest{Key: []byte(key)})
		return
	}
	_, _ = kv.Txn(ctx, &pb.TxnRequest{
		Compare: []*pb.Compare{{Key: []byte(key), Target: pb.Compare_MOD, Result: pb.Compare_EQUAL,
			TargetUnion: &pb.Compare_ModRevision{ModRevision: r.Kvs[0].ModRevision}}},
		Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestPut{
			RequestPut: &pb.PutRequest{Key: []byte(key), Value: []byte("somebody else's"), Lease: lease}}}},
	})
}
