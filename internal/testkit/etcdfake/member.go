package etcdfake

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"

	"github.com/pawl-locks/pawl/internal/etcdapi"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake/wire"

	"github.com/pawl-locks/pawl/internal/testkit/etcdfake/etcd"
)

var errStopped = rpctypes.ErrGRPCStopped

// Member is one server of the cluster, with its endpoint, connections and faults.
type Member struct {
	c        *Cluster
	index    int
	endpoint string
	id       uint64
	up, down *wire.Link // what clients send, what the member answers
	server   *grpc.Server
	accept   chan net.Conn
	counts   counters

	refusing atomic.Bool

	// Guarded by c.mu.
	conns     map[*wire.Conn]struct{}
	version   string
	learner   bool
	left      bool      // it is no member of the cluster
	unknown   int       // how many of the first tokens it does not know
	clusterID uint64    // the cluster's if 0
	contact   contact   // towards its peers
	lostAt    time.Time // since when it has no leader; zero if it has one
	frozen    *lastView // what it still sees of the state, if not nil
	streams   map[*liveStream]struct{}
	edits     []*watchEdit
}

// lastView is the last state that a member without contact saw.
type lastView struct {
	rev    int64
	term   uint64
	leader int
	leases map[int64]int64 // ID to TTL
}

// lean spares a member the costs of a real one's network. Windows are fixed, so that no pings
// measure the bandwidth. Buffers are small. Goroutines with grown stacks serve request after
// request.
var lean = []grpc.ServerOption{
	grpc.StaticStreamWindowSize(wire.Buffer), grpc.StaticConnWindowSize(wire.Buffer),
	grpc.ReadBufferSize(4 << 10), grpc.WriteBufferSize(4 << 10),
	grpc.NumStreamWorkers(4),
}

func newMember(c *Cluster, i int) *Member {
	m := &Member{
		c: c, index: i,
		endpoint: fmt.Sprintf("10.0.0.%d:2379", i+1),
		id:       0x8e9e05c52164694d + uint64(i),
		up:       wire.NewLink(), down: wire.NewLink(),
		accept:  make(chan net.Conn),
		version: c.opts.Version,
		conns:   map[*wire.Conn]struct{}{},
		streams: map[*liveStream]struct{}{},
	}
	m.counts.init()
	encryption := insecure.NewCredentials()
	if c.opts.TLS != nil {
		encryption = credentials.NewTLS(c.opts.TLS)
	}
	m.server = grpc.NewServer(append(lean[:len(lean):len(lean)],
		grpc.Creds(encryption),
		grpc.WaitForHandlers(true),
		grpc.MaxRecvMsgSize(2<<20),
		grpc.UnaryInterceptor(m.unary),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second}),
	)...)
	pb.RegisterKVServer(m.server, &kvServer{m: m})
	pb.RegisterLeaseServer(m.server, &leaseServer{m: m})
	pb.RegisterWatchServer(m.server, &watchServer{m: m})
	pb.RegisterMaintenanceServer(m.server, &maintenanceServer{m: m})
	pb.RegisterClusterServer(m.server, &clusterServer{m: m})
	pb.RegisterAuthServer(m.server, &authServer{m: m})
	return m
}

// start serves until the server is stopped.
func (m *Member) start() {
	m.c.wg.Go(func() { // ends when Close stops the server
		_ = m.server.Serve(listener{m})
	})
}

// Endpoint is the address at which clients reach the member.
func (m *Member) Endpoint() string { return m.endpoint }

// ID is the member_id of its answers.
func (m *Member) ID() uint64 { return m.id }

func (m *Member) dial(ctx context.Context) (net.Conn, error) {
	if m.refusing.Load() {
		return nil, refused(m.endpoint)
	}
	m.c.mu.Lock()
	client, server := wire.NewConn(m.up, m.down, m.endpoint)
	m.conns[client] = struct{}{}
	m.c.mu.Unlock()
	select {
	case m.accept <- &serverConn{Conn: server, m: m, client: client}:
		return client, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-m.c.done:
		return nil, refused(m.endpoint)
	}
}

// serverConn forgets the connection when the server is through with it.
type serverConn struct {
	*wire.Conn
	m      *Member
	client *wire.Conn
}

func (s *serverConn) Close() error {
	s.m.c.mu.Lock()
	delete(s.m.conns, s.client)
	s.m.c.mu.Unlock()
	return s.Conn.Close()
}

// listener hands a member's connections to its server.
type listener struct{ m *Member }

func (l listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.m.accept:
		return c, nil
	case <-l.m.c.done:
		return nil, net.ErrClosed
	}
}

func (l listener) Close() error   { return nil } // the cluster's Close ends Accept
func (l listener) Addr() net.Addr { return wire.Addr(l.m.endpoint) }

// fill completes the header of an answer. The caller holds c.mu.
func (m *Member) fill(h *pb.ResponseHeader) *pb.ResponseHeader {
	h.ClusterId, h.MemberId, h.RaftTerm = m.c.clusterID, m.id, m.c.term
	if m.clusterID != 0 {
		h.ClusterId = m.clusterID
	}
	if m.frozen != nil && m.contact != inTouch {
		h.RaftTerm = m.frozen.term
	}
	if h.Revision == 0 {
		h.Revision = m.revision()
	}
	return h
}

// revision is the last one the member has seen. The caller holds c.mu.
func (m *Member) revision() int64 {
	if m.frozen != nil {
		return min(m.frozen.rev, m.c.state.Store.Rev)
	}
	return m.c.state.Store.Rev
}

// view is what a read sees. The caller holds c.mu.
func (m *Member) view() etcd.View { return etcd.View{Store: m.c.state.Store, Rev: m.revision()} }

// who returns the sender of a request. The caller holds c.mu.
func (m *Member) who(ctx context.Context) (*etcd.Identity, error) {
	if !m.c.state.Auth.Enabled {
		return nil, nil
	}
	for _, name := range []string{rpctypes.TokenFieldNameGRPC, rpctypes.TokenFieldNameSwagger} {
		if v := metadata.ValueFromIncomingContext(ctx, name); len(v) > 0 {
			return m.c.state.Auth.Identify(time.Now(), v[0], m.unknown)
		}
	}
	return nil, nil
}

func wantsLeader(ctx context.Context) bool {
	v := metadata.ValueFromIncomingContext(ctx, rpctypes.MetadataRequireLeaderKey)
	return len(v) > 0 && v[0] == rpctypes.MetadataHasLeader
}

// admit refuses requests that the member does not process.
func (m *Member) admit(ctx context.Context, req any) error {
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	if m.learner && !learnerServes(req) {
		return etcdapi.ErrNotSupportedForLearner
	}
	if wantsLeader(ctx) && m.knowsNoLeader(time.Now()) {
		return rpctypes.ErrGRPCNoLeader
	}
	return nil
}

func learnerServes(req any) bool {
	switch r := req.(type) {
	case *pb.StatusRequest:
		return true
	case *pb.RangeRequest:
		return r.Serializable
	}
	return false
}
