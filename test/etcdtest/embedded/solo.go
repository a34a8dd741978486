package embedded

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/config"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/test/bufconn"

	"github.com/pawl-locks/pawl/internal/testkit/bufdial"
	"github.com/pawl-locks/pawl/test/etcdtest/fatallog"
)

// endpoint is where clients find the server. It is an IP literal, so that no resolver leaves the
// process.
const endpoint = "10.0.0.1:2379"

// Options change what Start starts. The zero value is etcd's defaults.
type Options struct {
	TokenTTL  time.Duration // of auth tokens, in whole seconds; 300 s if 0
	MaxTxnOps int           // 128 if 0
	Quota     int64         // of the database in bytes; 2 GiB if 0
}

// Server is a real etcd server without a network.
type Server struct {
	etcd   *etcdserver.EtcdServer
	rpc    *grpc.Server
	listen *bufconn.Listener
	dialer bufdial.Dialer
	served chan struct{} // closed when rpc serves no more
	stop   sync.Once
}

// Start starts a server that lasts until the end of the test, or of the bubble it is called in. It
// returns once the server has a leader.
func Start(t testing.TB, o Options) *Server {
	t.Helper()
	s, err := start(t.TempDir(), o)
	if err != nil {
		t.Fatalf("embedded: start: %v", err)
	}
	t.Cleanup(s.Stop)
	return s
}

func start(dir string, o Options) (*Server, error) {
	etcd, err := etcdserver.NewServer(serverConfig(dir, o))
	if err != nil {
		return nil, err
	}
	etcd.Start()
	select {
	case <-etcd.ReadyNotify():
	case <-time.After(time.Minute):
		etcd.Stop()
		return nil, fmt.Errorf("no leader after a minute")
	}
	s := &Server{
		etcd: etcd, listen: bufconn.Listen(1 << 20), dialer: bufdial.New(), served: make(chan struct{}),
		rpc: v3rpc.Server(etcd, nil, nil, grpc.WaitForHandlers(true),
			grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: embed.DefaultGRPCKeepAliveMinTime}),
			// In memory there is no bandwidth to measure with pings, and large buffers gain nothing.
			grpc.StaticStreamWindowSize(1<<20), grpc.StaticConnWindowSize(1<<20),
			grpc.ReadBufferSize(4<<10), grpc.WriteBufferSize(4<<10), grpc.NumStreamWorkers(4)),
	}
	go func() { // ends with rpc.Stop, and Stop waits for it
		defer close(s.served)
		_ = s.rpc.Serve(s.listen)
	}()
	return s, nil
}

func serverConfig(dir string, o Options) config.ServerConfig {
	urls := types.MustNewURLs([]string{"http://10.0.0.1:2380"})
	d := embed.NewConfig()
	return config.ServerConfig{
		Name:                 d.Name,
		DataDir:              dir,
		ClientURLs:           []url.URL{{Scheme: "http", Host: endpoint}},
		PeerURLs:             urls,
		InitialPeerURLsMap:   types.URLsMap{d.Name: urls},
		InitialClusterToken:  d.InitialClusterToken,
		NewCluster:           true,
		TickMs:               d.TickMs,
		ElectionTicks:        d.ElectionTicks(),
		SnapshotCount:        d.SnapshotCount,
		MaxTxnOps:            uint(cmp.Or(o.MaxTxnOps, int(d.MaxTxnOps))),
		MaxRequestBytes:      d.MaxRequestBytes,
		MaxConcurrentStreams: d.MaxConcurrentStreams,
		QuotaBackendBytes:    o.Quota,
		AuthToken:            d.AuthToken,
		BcryptCost:           4,
		TokenTTL:             uint(cmp.Or(o.TokenTTL, 300*time.Second) / time.Second),
		PreVote:              d.PreVote,
		UnsafeNoFsync:        true,
		Logger:               fatallog.New(),
		ServerFeatureGate:    d.ServerFeatureGate,
		Metrics:              d.Metrics,
		V2Deprecation:        d.V2DeprecationEffective(),
		BackendFreelistType:  "map",

		WarningApplyDuration:        time.Hour,
		WarningUnaryRequestDuration: time.Hour,
		SnapshotCatchUpEntries:      d.SnapshotCatchUpEntries,
		DowngradeCheckTime:          d.DowngradeCheckTime,
	}
}

// Stop ends the server and closes its connections. All its goroutines have ended when it returns.
// It can be called again.
func (s *Server) Stop() {
	s.stop.Do(func() {
		s.rpc.Stop()
		<-s.served
		s.etcd.Stop()
	})
}

// Endpoints is the one address for a client's configuration. Only DialOption
// reaches it.
func (s *Server) Endpoints() []string { return []string{endpoint} }

// DialOption makes a gRPC client reach the server, and nothing else.
func (s *Server) DialOption() grpc.DialOption {
	return grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
		if address != endpoint {
			return nil, fmt.Errorf("embedded: dial %s: not this server", address)
		}
		return s.dialer.Dial(ctx, s.listen)
	})
}
