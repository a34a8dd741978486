package kv

import (
	"context"
	"net"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/embed"

	"github.com/pawl-locks/pawl/internal/cluster"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// startEtcd runs a real etcd until the test's end.
func startEtcd(t testing.TB, change func(cfg *embed.Config), opts ...grpc.DialOption) *cluster.Cluster {
	t.Helper()
	cfg := embed.NewConfig()
	cfg.Dir = t.TempDir()
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	cfg.TickMs, cfg.ElectionMs = 10, 100
	cfg.UnsafeNoFsync = true
	loopback := []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = loopback, loopback
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = loopback, loopback
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	if change != nil {
		change(cfg)
	}
	e, err := embed.StartEtcd(cfg)
	require.NoError(t, err)
	t.Cleanup(e.Close)
	<-e.Server.ReadyNotify()
	return dial(t, cluster.Config{Endpoints: []string{e.Clients[0].Addr().String()}, DialOptions: opts})
}

func dial(t testing.TB, cfg cluster.Config) *cluster.Cluster {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
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

// startStub runs s, also in a synctest bubble, and returns a Client of it.
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

// holder is what a Held's Guards ask of it.
type holder struct{ err error }

func (h *holder) Err() error { return h.err }

func newClient(c *cluster.Cluster) *Client { return &Client{c} }
