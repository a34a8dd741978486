package kv

import (
	"context"
	"net"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/leaks"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
)

func TestMain(m *testing.M) { leaks.VerifyTestMain(m) }

// newEtcd is a cluster in memory until the test's end.
func newEtcd(t testing.TB, o etcdfake.Options, opts ...grpc.DialOption) *cluster.Cluster {
	t.Helper()
	fake := etcdfake.New(o)
	t.Cleanup(fake.Close)
	return dial(t, cluster.Config{Endpoints: fake.Endpoints(), DialOptions: append(opts, fake.DialOption())})
}

func dial(t testing.TB, cfg cluster.Config) *cluster.Cluster {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testscale.Hang)
	defer cancel()
	c, err := cluster.Dial(ctx, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// stub is a server whose answer to transactions the test programs.
type stub struct {
	pb.UnimplementedKVServer
	pb.UnimplementedMaintenanceServer
	txns  atomic.Int64
	onTxn func(ctx context.Context, r *pb.TxnRequest) (*pb.TxnResponse, error)
}

func (s *stub) Txn(ctx context.Context, r *pb.TxnRequest) (*pb.TxnResponse, error) {
	s.txns.Add(1)
	return s.onTxn(ctx, r)
}

func (s *stub) Status(context.Context, *pb.StatusRequest) (*pb.StatusResponse, error) {
	return &pb.StatusResponse{Header: header(), Version: "3.7.3"}, nil
}

func header() *pb.ResponseHeader {
	return &pb.ResponseHeader{ClusterId: 7, MemberId: 1, RaftTerm: 2, Revision: 10}
}

// startStub runs s and returns a Client of it. It works in a synctest bubble too.
func startStub(t *testing.T, s *stub) *Client {
	l := bufconn.Listen(1 << 20)
	server := grpc.NewServer()
	pb.RegisterKVServer(server, s)
	pb.RegisterMaintenanceServer(server, s)
	served := make(chan struct{})
	go func() { defer close(served); _ = server.Serve(l) }() // ends with Stop
	t.Cleanup(func() { server.Stop(); <-served })
	return newClient(dial(t, cluster.Config{Endpoints: []string{"stub:1"}, DialOptions: []grpc.DialOption{
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }),
	}}))
}

// holder is the Holder that a Held's Guards query.
type holder struct{ err error }

func (h *holder) Err() error { return h.err }

func newClient(c *cluster.Cluster) *Client { return &Client{c} }
