package watcher_test

import (
	"context"
	"errors"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/config"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc"
	"go.etcd.io/etcd/server/v3/features"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/test/bufconn"

	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/testkit/bufdial"
	"github.com/pawl-locks/pawl/internal/watcher"
	"github.com/pawl-locks/pawl/test/etcdtest/fatallog"
)

// real is a single etcd member, served in memory, so that it also runs in a synctest bubble.
type real struct {
	t      testing.TB
	server *etcdserver.EtcdServer
	lis    *bufconn.Listener
	dialer bufdial.Dialer
	conn   *grpc.ClientConn // never cut
	kv     pb.KVClient
	auth   pb.AuthClient

	down  atomic.Bool // dial fails
	mu    sync.Mutex
	conns map[net.Conn]bool // of dial; cut closes them
}

// startEtcd starts one whose auth tokens live for ttl seconds.
func startEtcd(t testing.TB, ttl uint) *real {
	defaults := embed.NewConfig()
	u, err := url.Parse("http://localhost:2380")
	require.NoError(t, err)
	srv, err := etcdserver.NewServer(config.ServerConfig{
		Name: "default", DataDir: t.TempDir(), Logger: fatallog.New(), UnsafeNoFsync: true,
		ClientURLs: []url.URL{*u}, PeerURLs: []url.URL{*u},
		InitialPeerURLsMap: types.URLsMap{"default": {*u}}, InitialClusterToken: "t", NewCluster: true,
		SnapshotCount: defaults.SnapshotCount, SnapshotCatchUpEntries: defaults.SnapshotCatchUpEntries,
		TickMs: 100, ElectionTicks: 10, InitialElectionTickAdvance: true, PreVote: true,
		MaxTxnOps: defaults.MaxTxnOps, MaxRequestBytes: defaults.MaxRequestBytes, MaxConcurrentStreams: defaults.MaxConcurrentStreams,
		AuthToken: "simple", TokenTTL: ttl, BcryptCost: 4,
		BackendBatchInterval: defaults.BackendBatchInterval, BackendBatchLimit: defaults.BackendBatchLimit,
		CompactionBatchLimit: 1000, CompactionSleepInterval: 10 * time.Millisecond,
		WarningApplyDuration: time.Second, WarningUnaryRequestDuration: time.Second,
		DowngradeCheckTime: defaults.DowngradeCheckTime, V2Deprecation: config.V2DeprDefault,
		ServerFeatureGate: features.NewDefaultServerFeatureGate("default", zap.NewNop()), Metrics: "basic",
	})
	require.NoError(t, err)
	srv.Start()
	t.Cleanup(srv.Stop)
	<-srv.ReadyNotify()

	r := &real{t: t, server: srv, lis: bufconn.Listen(1 << 20), dialer: bufdial.New(), conns: map[net.Conn]bool{}}
	g := v3rpc.Server(srv, nil, nil)
	served := make(chan struct{})
	go func() { defer close(served); _ = g.Serve(r.lis) }()
	t.Cleanup(func() { g.Stop(); <-served })
	r.conn, err = grpc.NewClient("passthrough:///etcd", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return r.dialer.Dial(ctx, r.lis) }))
	require.NoError(t, err)
	t.Cleanup(func() { _ = r.conn.Close() })
	r.kv, r.auth = pb.NewKVClient(r.conn), pb.NewAuthClient(r.conn)
	return r
}

// hub returns a Hub whose connections cut cuts.
func (r *real) hub(user string) *watcher.Hub {
	c, err := cluster.Dial(context.Background(), cluster.Config{
		Endpoints: []string{"etcd0:2379", "etcd1:2379"}, Username: user, Password: user,
		DialOptions: []grpc.DialOption{grpc.WithContextDialer(r.dial)},
	})
	require.NoError(r.t, err)
	r.t.Cleanup(func() { assert.NoError(r.t, c.Close()) })
	h := watcher.New(c)
	r.t.Cleanup(h.Close)
	return h
}

func (r *real) dial(ctx context.Context, _ string) (net.Conn, error) {
	if r.down.Load() {
		return nil, errors.New("down")
	}
	conn, err := r.dialer.Dial(ctx, r.lis)
	if err == nil {
		r.mu.Lock()
		r.conns[conn] = true
		r.mu.Unlock()
	}
	return conn, err
}

func (r *real) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for conn := range r.conns {
		_ = conn.Close()
	}
	clear(r.conns)
}

func (r *real) put(key, value string) int64 { return r.putAs(context.Background(), key, value) }

func (r *real) putAs(ctx context.Context, key, value string) int64 {
	resp, err := r.kv.Put(ctx, &pb.PutRequest{Key: []byte(key), Value: []byte(value)})
	require.NoError(r.t, err)
	return resp.Header.Revision
}

func (r *real) compact(rev int64) {
	_, err := r.kv.Compact(context.Background(), &pb.CompactionRequest{Revision: rev, Physical: true})
	require.NoError(r.t, err)
}

// enableAuth makes root, and reader, who may read only what begins with "open/"; their passwords
// are their names.
func (r *real) enableAuth() {
	ctx := context.Background()
	for _, name := range []string{"root", "reader"} {
		_, err := r.auth.UserAdd(ctx, &pb.AuthUserAddRequest{Name: name, Password: name})
		require.NoError(r.t, err)
		_, err = r.auth.RoleAdd(ctx, &pb.AuthRoleAddRequest{Name: name})
		require.NoError(r.t, err)
		_, err = r.auth.UserGrantRole(ctx, &pb.AuthUserGrantRoleRequest{User: name, Role: name})
		require.NoError(r.t, err)
	}
	_, err := r.auth.RoleGrantPermission(ctx, &pb.AuthRoleGrantPermissionRequest{
		Name: "reader", Perm: &authpb.Permission{PermType: authpb.READ, Key: []byte("open/"), RangeEnd: []byte("open0")},
	})
	require.NoError(r.t, err)
	_, err = r.auth.AuthEnable(ctx, &pb.AuthEnableRequest{})
	require.NoError(r.t, err)
}

// asRoot returns a context with root's token, for r's own requests.
func (r *real) asRoot() context.Context {
	resp, err := r.auth.Authenticate(context.Background(), &pb.AuthenticateRequest{Name: "root", Password: "root"})
	require.NoError(r.t, err)
	return metadata.AppendToOutgoingContext(context.Background(), "token", resp.Token)
}
