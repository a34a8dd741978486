package watcher

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/test/bufconn"

	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/etcdapi"
	"github.com/pawl-locks/pawl/internal/testkit/bufdial"
	"github.com/pawl-locks/pawl/internal/testkit/leaks"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

func TestMain(m *testing.M) { leaks.VerifyTestMain(m) }

const clusterID = 0xc1

// bench is a cluster of scripted members, whose watch streams the test itself serves, and a Hub on it.
type bench struct {
	t       testing.TB
	members []*member
	streams chan *call // every stream that is opened at any member
	cluster *cluster.Cluster
	hub     *Hub

	mu     sync.Mutex
	tokens int          // handed out
	listed []*pb.Member // what MemberList shows
}

// member is an etcd member that answers the requests of cluster.Dial and leaves watches to the test.
type member struct {
	pb.UnimplementedWatchServer
	pb.UnimplementedMaintenanceServer
	pb.UnimplementedAuthServer
	pb.UnimplementedClusterServer

	bench  *bench
	index  int
	lis    *bufconn.Listener
	onOpen func(m *member) error // returns the error with which a stream ends before it is served, if any; may be nil
	onAuth func(ctx context.Context)
	moved  atomic.Bool // Status answers as another cluster
}

// call is one watch stream, at the server.
type call struct {
	*bench
	member *member
	stream pb.Watch_WatchServer
	token  string
	at     time.Time // when it was opened
	reqs   chan *pb.WatchRequest
	half   chan struct{} // closed when the client closed its half
	end    chan error
	gone   chan struct{} // closed when the stream has ended
}

type benchConfig struct {
	members int
	user    string
	onOpen  func(m *member) error
	onAuth  func(ctx context.Context) // called before a token is issued; may be nil
	logger  *slog.Logger
	sync    time.Duration // how often the member list is read; 0 means never
}

func newBench(t testing.TB, cfg benchConfig) *bench {
	b := &bench{t: t, streams: make(chan *call, 1000)}
	var endpoints []string
	turn := bufdial.New()
	for i := range max(cfg.members, 1) {
		m := &member{bench: b, index: i, lis: bufconn.Listen(1 << 20), onOpen: cfg.onOpen, onAuth: cfg.onAuth}
		b.members = append(b.members, m)
		endpoints = append(endpoints, fmt.Sprintf("member%d:2379", i))
		srv := grpc.NewServer()
		pb.RegisterWatchServer(srv, m)
		pb.RegisterMaintenanceServer(srv, m)
		pb.RegisterAuthServer(srv, m)
		pb.RegisterClusterServer(srv, m)
		served := make(chan struct{})
		go func() { defer close(served); _ = srv.Serve(m.lis) }()
		t.Cleanup(func() { srv.Stop(); <-served })
	}
	dialer := func(ctx context.Context, addr string) (net.Conn, error) {
		var i int
		if _, err := fmt.Sscanf(addr, "member%d:2379", &i); err != nil {
			return nil, err
		}
		return turn.Dial(ctx, b.members[i].lis)
	}
	c, err := cluster.Dial(context.Background(), cluster.Config{
		Endpoints: endpoints, Username: cfg.user, Password: cfg.user, Logger: cfg.logger, SyncEvery: cfg.sync,
		DialOptions: []grpc.DialOption{grpc.WithContextDialer(dialer)},
	})
	require.NoError(t, err)
	b.cluster = c
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	b.hub = New(c)
	t.Cleanup(b.hub.Close)
	return b
}

// inBubble runs f with a bench in a synctest bubble.
func inBubble(t *testing.T, cfg benchConfig, f func(t *testing.T, b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newBench(t, cfg)) })
}

func (m *member) header(rev int64) *pb.ResponseHeader {
	return &pb.ResponseHeader{ClusterId: clusterID, MemberId: uint64(m.index + 1), Revision: rev, RaftTerm: 2}
}

func (m *member) Status(context.Context, *pb.StatusRequest) (*pb.StatusResponse, error) {
	h := m.header(1)
	if m.moved.Load() {
		h.ClusterId = 0xbad
	}
	return &pb.StatusResponse{Header: h, Version: "3.7.3"}, nil
}

func (m *member) MemberList(context.Context, *pb.MemberListRequest) (*pb.MemberListResponse, error) {
	m.bench.mu.Lock()
	defer m.bench.mu.Unlock()
	return &pb.MemberListResponse{Header: m.header(1), Members: m.bench.listed}, nil
}

func (m *member) Authenticate(ctx context.Context, _ *pb.AuthenticateRequest) (*pb.AuthenticateResponse, error) {
	if m.onAuth != nil {
		m.onAuth(ctx)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	m.bench.mu.Lock()
	defer m.bench.mu.Unlock()
	m.bench.tokens++
	return &pb.AuthenticateResponse{Header: m.header(1), Token: fmt.Sprintf("token%d", m.bench.tokens)}, nil
}

func (m *member) Watch(stream pb.Watch_WatchServer) error {
	md, _ := metadata.FromIncomingContext(stream.Context())
	if m.onOpen != nil {
		if err := m.onOpen(m); err != nil {
			return err
		}
	}
	c := &call{
		bench: m.bench, member: m, stream: stream, at: time.Now(), reqs: make(chan *pb.WatchRequest, 4096),
		half: make(chan struct{}), end: make(chan error, 1), gone: make(chan struct{}),
	}
	if v := md.Get("token"); len(v) > 0 {
		c.token = v[0]
	}
	require.Equal(m.bench.t, []string{"true"}, md.Get("hasleader"), "every stream asks for a leader")
	go func() { // ends with the stream
		for {
			r, err := stream.Recv()
			if err != nil {
				close(c.half)
				return
			}
			c.reqs <- r
		}
	}()
	m.bench.streams <- c
	defer close(c.gone)
	select {
	case err := <-c.end:
		return err
	case <-stream.Context().Done():
		return stream.Context().Err()
	}
}

// accept waits for the next stream, at most a minute.
func (b *bench) accept() *call {
	b.t.Helper()
	select {
	case c := <-b.streams:
		return c
	case <-time.After(time.Minute):
		b.t.Fatal("no stream was opened")
		return nil
	}
}

// noStream asserts that no stream is opened within d.
func (b *bench) noStream(d time.Duration) {
	b.t.Helper()
	select {
	case <-b.streams:
		b.t.Fatal("a stream was opened")
	case <-time.After(d):
	}
}

func (c *call) request() *pb.WatchRequest {
	c.t.Helper()
	select {
	case r := <-c.reqs:
		return r
	case <-time.After(time.Minute):
		c.t.Fatal("no request came")
		return nil
	}
}

// nothing asserts that no request comes within d.
func (c *call) nothing(d time.Duration) {
	c.t.Helper()
	select {
	case r := <-c.reqs:
		c.t.Fatalf("a request came: %v", r)
	case <-time.After(d):
	}
}

// create waits for a creation.
func (c *call) create() *pb.WatchCreateRequest {
	c.t.Helper()
	r := c.request()
	require.NotNil(c.t, r.GetCreateRequest(), "want a creation, got %v", r)
	return r.GetCreateRequest()
}

// canceled waits for a cancel and returns its ID.
func (c *call) canceled() int64 {
	c.t.Helper()
	r := c.request()
	require.NotNil(c.t, r.GetCancelRequest(), "want a cancel, got %v", r)
	return r.GetCancelRequest().WatchId
}

func (c *call) send(r *pb.WatchResponse) {
	c.t.Helper()
	if r.Header == nil {
		r.Header = c.member.header(100)
	}
	require.NoError(c.t, c.stream.Send(r))
}

func (c *call) created(id int64) { c.t.Helper(); c.send(&pb.WatchResponse{WatchId: id, Created: true}) }

// grant waits for a creation and acknowledges it.
func (c *call) grant() *pb.WatchCreateRequest {
	c.t.Helper()
	r := c.create()
	c.created(r.WatchId)
	return r
}

func (c *call) refuse(reason string) {
	c.t.Helper()
	c.send(&pb.WatchResponse{WatchId: -1, Created: true, Canceled: true, CancelReason: reason})
}

func (c *call) events(id int64, evs ...*mvccpb.Event) {
	c.t.Helper()
	c.send(&pb.WatchResponse{WatchId: id, Events: evs})
}

// put is an event.
func put(key string, rev int64) *mvccpb.Event {
	return &mvccpb.Event{Kv: &mvccpb.KeyValue{
		Key: []byte(key), Value: fmt.Appendf(nil, "%s@%d", key, rev), CreateRevision: 1, ModRevision: rev, Version: 1,
	}}
}

func del(key string, rev int64) *mvccpb.Event {
	return &mvccpb.Event{Type: etcdapi.EventDelete, Kv: &mvccpb.KeyValue{Key: []byte(key), ModRevision: rev}}
}

// log is a watch's function that records its calls, and checks the rules for each call.
type log struct {
	t       testing.TB
	mu      sync.Mutex
	updates []Update
	ended   bool
}

func (l *log) note(u Update) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.check(u)
	l.updates = append(l.updates, u)
}

// check asserts guarantees 1 and 3 as far as they are visible here. The caller holds mu.
func (l *log) check(u Update) {
	if l.ended {
		l.t.Errorf("a call after the end: %+v", u)
	}
	if u.Err != nil || u.Compacted > 0 {
		l.ended = true
		return
	}
	last := int64(0)
	for _, old := range l.updates {
		last = max(last, old.Revision)
	}
	if len(u.Events) == 0 || u.Events[0].ModRevision <= last || u.Revision != u.Events[len(u.Events)-1].ModRevision {
		l.t.Errorf("an update out of order after %d: %+v", last, u)
	}
}

func (l *log) all() []Update {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]Update(nil), l.updates...)
}

// revisions are those of all events so far, with events of one revision distinguished.
func (l *log) revisions() []int64 {
	var out []int64
	for _, u := range l.all() {
		for _, e := range u.Events {
			out = append(out, e.ModRevision)
		}
	}
	return out
}

// end is the update that ended the watch.
func (l *log) end() Update {
	l.t.Helper()
	us := l.all()
	require.NotEmpty(l.t, us, "the watch has not ended")
	u := us[len(us)-1]
	require.True(l.t, u.Err != nil || u.Compacted > 0, "the watch has not ended: %+v", u)
	return u
}

// Armed reports whether a server has acknowledged the creation of w.
func (w *Watch) Armed() bool {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	return w.armed
}

// watch adds a watch with a log.
func (b *bench) watch(key, end string, from int64) (*Watch, *log) {
	l := &log{t: b.t}
	return b.hub.Watch(key, end, from, l.note), l
}
