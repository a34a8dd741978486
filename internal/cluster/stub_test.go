package cluster

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

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/test/bufconn"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/internal/testkit/bufdial"
	"github.com/pawl-locks/pawl/internal/testkit/leaks"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/internal/testkit/syncbuffer"
)

func TestMain(m *testing.M) { leaks.VerifyTestMain(m) }

// stub is one member of a pretended cluster: a real gRPC server whose answers the test programs.
type stub struct {
	pb.UnimplementedKVServer
	pb.UnimplementedMaintenanceServer
	pb.UnimplementedAuthServer
	pb.UnimplementedClusterServer
	pb.UnimplementedLeaseServer

	name     string
	listener *bufconn.Listener
	server   *grpc.Server

	cluster, member, raftTerm atomic.Uint64
	revision                  atomic.Int64
	version                   atomic.Value // string
	learner                   atomic.Bool

	txns, statuses, auths atomic.Int64
	mu                    sync.Mutex
	onTxn                 func(ctx context.Context, n int64, r *pb.TxnRequest) (*pb.TxnResponse, error)
	onStatus              func(ctx context.Context, n int64) error
	onAuth                func(ctx context.Context, n int64, r *pb.AuthenticateRequest) (string, error)
	onMembers             func() []*pb.Member
}

func (s *stub) header() *pb.ResponseHeader {
	return &pb.ResponseHeader{ClusterId: s.cluster.Load(), MemberId: s.member.Load(), RaftTerm: s.raftTerm.Load(), Revision: s.revision.Load()}
}

// do programs the stub while it is running.
func (s *stub) do(f func(s *stub)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(s)
}

func (s *stub) Txn(ctx context.Context, r *pb.TxnRequest) (*pb.TxnResponse, error) {
	n := s.txns.Add(1)
	s.mu.Lock()
	f := s.onTxn
	s.mu.Unlock()
	if f != nil {
		return f(ctx, n, r)
	}
	return &pb.TxnResponse{Header: s.header(), Succeeded: true}, nil
}

func (s *stub) Status(ctx context.Context, _ *pb.StatusRequest) (*pb.StatusResponse, error) {
	n := s.statuses.Add(1)
	s.mu.Lock()
	f := s.onStatus
	s.mu.Unlock()
	if f != nil {
		if err := f(ctx, n); err != nil {
			return nil, err
		}
	}
	return &pb.StatusResponse{Header: s.header(), Version: s.version.Load().(string), IsLearner: s.learner.Load()}, nil
}

func (s *stub) Authenticate(ctx context.Context, r *pb.AuthenticateRequest) (*pb.AuthenticateResponse, error) {
	n := s.auths.Add(1)
	s.mu.Lock()
	f := s.onAuth
	s.mu.Unlock()
	token, err := f(ctx, n, r)
	if err != nil {
		return nil, err
	}
	return &pb.AuthenticateResponse{Header: s.header(), Token: token}, nil
}

func (s *stub) MemberList(context.Context, *pb.MemberListRequest) (*pb.MemberListResponse, error) {
	s.mu.Lock()
	f := s.onMembers
	s.mu.Unlock()
	h := s.header()
	h.Revision = 0 // as etcd does
	return &pb.MemberListResponse{Header: h, Members: f()}, nil
}

// LeaseKeepAlive accepts renewals and answers none.
func (s *stub) LeaseKeepAlive(stream pb.Lease_LeaseKeepAliveServer) error {
	<-stream.Context().Done()
	return stream.Context().Err()
}

// stubs is a pretended cluster whose members are reached by name through one dialer.
type stubs struct {
	t    testing.TB
	log  *syncbuffer.Buffer
	mu   sync.Mutex
	by   map[string]*stub
	hole map[string]bool // connections to these are accepted, and never answered
	dead map[string]bool // connections to these are refused
	made int             // connections
	turn bufdial.Dialer
}

func newStubs(t testing.TB, n int) *stubs {
	ss := &stubs{t: t, log: new(syncbuffer.Buffer), by: map[string]*stub{}, hole: map[string]bool{}, dead: map[string]bool{}, turn: bufdial.New()}
	for i := range n {
		ss.add(fmt.Sprintf("m%d:2379", i), uint64(i+1))
	}
	return ss
}

func (ss *stubs) add(name string, member uint64, opts ...grpc.ServerOption) *stub {
	s := &stub{name: name, listener: bufconn.Listen(1 << 20), server: grpc.NewServer(append(opts,
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second}), // as etcd's
	)...)}
	s.cluster.Store(7)
	s.member.Store(member)
	s.raftTerm.Store(2)
	s.revision.Store(10)
	s.version.Store("3.7.3")
	pb.RegisterKVServer(s.server, s)
	pb.RegisterMaintenanceServer(s.server, s)
	pb.RegisterAuthServer(s.server, s)
	pb.RegisterClusterServer(s.server, s)
	pb.RegisterLeaseServer(s.server, s)
	served := make(chan struct{})
	go func() { defer close(served); _ = s.server.Serve(s.listener) }() // ends with Stop
	ss.t.Cleanup(func() { s.server.Stop(); <-served })
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.by[name] = s
	return s
}

func (ss *stubs) get(i int) *stub {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	return ss.by[fmt.Sprintf("m%d:2379", i)]
}

func (ss *stubs) each(f func(*stub)) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	for _, s := range ss.by {
		s.do(f)
	}
}

func (ss *stubs) dial(ctx context.Context, addr string) (net.Conn, error) {
	ss.mu.Lock()
	s, hole, dead := ss.by[addr], ss.hole[addr], ss.dead[addr]
	ss.mu.Unlock()
	switch {
	case hole:
		<-ctx.Done() // as if the SYN got no answer
		return nil, ctx.Err()
	case dead || s == nil:
		return nil, fmt.Errorf("dial %s: connection refused", addr)
	}
	ss.mu.Lock()
	ss.made++
	ss.mu.Unlock()
	return ss.turn.Dial(ctx, s.listener)
}

func (ss *stubs) config(names ...string) Config {
	if len(names) == 0 {
		for i := range len(ss.by) {
			names = append(names, fmt.Sprintf("m%d:2379", i))
		}
	}
	return Config{
		Endpoints:   names,
		DialOptions: []grpc.DialOption{grpc.WithContextDialer(ss.dial)},
		Logger:      slog.New(slog.NewTextHandler(ss.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
}

// logged is the log, once what was logged is written.
func (ss *stubs) logged() string {
	synctest.Wait()
	return ss.log.String()
}

// connect dials with cfg and closes at the test's end, before the stubs are stopped.
func (ss *stubs) connect(cfg Config) *Cluster {
	c, err := Dial(context.Background(), cfg)
	require.NoError(ss.t, err)
	ss.t.Cleanup(func() { _ = c.Close() })
	return c
}

func (ss *stubs) txns() (n int64) {
	ss.each(func(s *stub) { n += s.txns.Load() })
	return n
}

// member finds the Member of a stub.
func member(t testing.TB, c *Cluster, name string) *Member {
	for _, m := range c.list() {
		if m.Endpoint() == name {
			return m
		}
	}
	t.Fatalf("no member %s", name)
	return nil
}

// mdOf is the metadata of a request under key.
func mdOf(ctx context.Context, key string) string {
	md, _ := metadata.FromIncomingContext(ctx)
	if v := md.Get(key); len(v) == 1 {
		return v[0]
	}
	return ""
}

// writing is a transaction that writes, reading one that does not.
func writing() *pb.TxnRequest {
	return &pb.TxnRequest{Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: []byte("k")}}}}}
}

func reading() *pb.TxnRequest {
	return &pb.TxnRequest{Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{Key: []byte("k")}}}}}
}

// silent never answers.
func silent(ctx context.Context, _ int64, _ *pb.TxnRequest) (*pb.TxnResponse, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// answers fails every transaction with err.
func answers(err error) func(context.Context, int64, *pb.TxnRequest) (*pb.TxnResponse, error) {
	return func(context.Context, int64, *pb.TxnRequest) (*pb.TxnResponse, error) { return nil, err }
}

// within asserts that d is between lo and hi.
func within(t testing.TB, lo, hi, d time.Duration) {
	t.Helper()
	require.GreaterOrEqual(t, d, lo)
	require.LessOrEqual(t, d, hi)
}
