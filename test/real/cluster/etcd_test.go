package cluster_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/embed"
	"google.golang.org/grpc"

	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/testkit/loopback"
	"github.com/pawl-locks/pawl/internal/testkit/pki"
	"github.com/pawl-locks/pawl/internal/testkit/syncbuffer"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
	"github.com/pawl-locks/pawl/test/etcdtest/embedded"
	"github.com/pawl-locks/pawl/test/etcdtest/fatallog"
)

const password = "hunter2"

// startEtcd runs a real etcd on loopback, or on listen, until the test's end, and returns its address.
func startEtcd(t *testing.T, listen string, change func(cfg *embed.Config)) string {
	t.Helper()
	cfg := embed.NewConfig()
	cfg.Dir = t.TempDir()
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(fatallog.New())
	cfg.TickMs, cfg.ElectionMs = 10, 100
	cfg.UnsafeNoFsync = true
	client, err := url.Parse(listen)
	require.NoError(t, err)
	peer := url.URL{Scheme: "http", Host: "127.0.0.1:0"}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{*client}, []url.URL{*client}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	if change != nil {
		change(cfg)
	}
	e, err := embed.StartEtcd(cfg)
	require.NoError(t, err)
	t.Cleanup(e.Close)
	select {
	case <-e.Server.ReadyNotify():
	case err := <-e.Err():
		require.NoError(t, err)
	case <-time.After(testscale.Hang):
		t.Fatal("etcd does not start")
	}
	return e.Clients[0].Addr().String()
}

// startEtcd runs a real etcd with TLS, that demands client certificates if mutual.
func startTLS(t *testing.T, p *pki.Authority, mutual bool) string {
	return startEtcd(t, "https://127.0.0.1:0", func(cfg *embed.Config) {
		cfg.ClientTLSInfo.CertFile, cfg.ClientTLSInfo.KeyFile = p.Issue("")
		cfg.ClientTLSInfo.ClientCertAuth = mutual
		cfg.BcryptCost = 4
		if mutual {
			cfg.ClientTLSInfo.TrustedCAFile = p.CAFile
		}
	})
}

func permission(key, end string) *authpb.Permission {
	return &authpb.Permission{PermType: authpb.READWRITE, Key: []byte(key), RangeEnd: []byte(end)}
}

func startPlain(t *testing.T) string { return startEtcd(t, "http://127.0.0.1:0", nil) }

// connect dials with a logger whose text is returned too.
func connect(t *testing.T, cfg cluster.Config) (*cluster.Cluster, *syncbuffer.Buffer) {
	t.Helper()
	log := new(syncbuffer.Buffer)
	cfg.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	ctx, cancel := context.WithTimeout(t.Context(), testscale.Hang)
	defer cancel()
	c, err := cluster.Dial(ctx, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c, log
}

func put(key string, value []byte) *pb.TxnRequest {
	return &pb.TxnRequest{Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: []byte(key), Value: value}}}}}
}

func mustPut(t *testing.T, c *cluster.Cluster, key string) *pb.TxnResponse {
	t.Helper()
	resp, err := c.Txn(t.Context(), cluster.Request{Op: "txn"}, put(key, []byte("v")))
	require.NoError(t, err)
	return resp
}

func TestARealServerIsReachedByEveryKindOfEndpoint(t *testing.T) {
	t.Parallel()
	addr := startPlain(t)
	sock := filepath.Join(t.TempDir(), "etcd.sock")
	startEtcd(t, "unix://"+sock, nil)
	_, port, err := net.SplitHostPort(addr)
	require.NoError(t, err)
	for _, ep := range []string{addr, "http://" + addr, "localhost:" + port, "unix://" + sock} {
		c, log := connect(t, cluster.Config{Endpoints: []string{ep}})
		resp := mustPut(t, c, "k")
		assert.Equal(t, c.ID(), resp.Header.ClusterId)
		assert.Equal(t, resp.Header.RaftTerm, c.RaftTerm())
		assert.Empty(t, log.String())
		answered := func(rev int64) error {
			return c.Do(t.Context(), cluster.Request{Op: "read"}, func(context.Context, *cluster.Member) (*pb.ResponseHeader, error) {
				return &pb.ResponseHeader{ClusterId: c.ID(), Revision: rev}, nil
			})
		}
		require.NoError(t, answered(resp.Header.Revision))
		require.ErrorIs(t, answered(resp.Header.Revision-1), cluster.ErrChanged, "the transaction has raised the floor")
	}
}

func TestRealServersAnswersAreTakenByDo(t *testing.T) {
	t.Parallel()
	c, _ := connect(t, cluster.Config{Endpoints: []string{startPlain(t)}, SyncEvery: time.Hour})
	mustPut(t, c, "k")
	var id int64
	err := c.Do(t.Context(), cluster.Request{Op: "lease grant"}, func(ctx context.Context, m *cluster.Member) (*pb.ResponseHeader, error) {
		resp, err := pb.NewLeaseClient(m).LeaseGrant(ctx, &pb.LeaseGrantRequest{TTL: 5})
		id = resp.GetID()
		return resp.GetHeader(), err
	})
	require.NoError(t, err)
	revoke := func(ctx context.Context, m *cluster.Member) (*pb.ResponseHeader, error) {
		resp, err := pb.NewLeaseClient(m).LeaseRevoke(ctx, &pb.LeaseRevokeRequest{ID: id})
		return resp.GetHeader(), err
	}
	require.NoError(t, c.Do(t.Context(), cluster.Request{Op: "lease revoke"}, revoke))
	err = c.Do(t.Context(), cluster.Request{Op: "lease revoke"}, revoke)
	require.True(t, cluster.IsLeaseNotFound(err))
	assert.Equal(t, cluster.NotApplied, cluster.OutcomeOf(err))
	err = c.Do(t.Context(), cluster.Request{Op: "member list", Repeat: cluster.Always, Local: true}, func(ctx context.Context, m *cluster.Member) (*pb.ResponseHeader, error) {
		resp, err := pb.NewClusterClient(m).MemberList(ctx, &pb.MemberListRequest{Linearizable: true})
		return resp.GetHeader(), err // without a revision
	})
	require.NoError(t, err)
	require.NoError(t, c.Err())
	mustPut(t, c, "k")
}

func TestARealServersRefusalsAreNotApplied(t *testing.T) {
	t.Parallel()
	c, _ := connect(t, cluster.Config{Endpoints: []string{startEtcd(t, "http://127.0.0.1:0", func(cfg *embed.Config) { cfg.MaxTxnOps = 2 })}})
	many := put("a", nil)
	many.Success = append(many.Success, put("b", nil).Success[0], put("c", nil).Success[0])
	_, err := c.Txn(t.Context(), cluster.Request{Op: "txn"}, many)
	require.True(t, cluster.IsTooManyOps(err), err)
	assert.Equal(t, cluster.NotApplied, cluster.OutcomeOf(err))
	leased := put("a", nil)
	leased.Success[0].GetRequestPut().Lease = 12345
	_, err = c.Txn(t.Context(), cluster.Request{Op: "txn"}, leased)
	require.True(t, cluster.IsLeaseNotFound(err), err)
	assert.Equal(t, cluster.NotApplied, cluster.OutcomeOf(err))
	_, err = c.Txn(t.Context(), cluster.Request{Op: "txn"}, put("a", make([]byte, 1600<<10)))
	require.ErrorContains(t, err, "request is too large")
	assert.Equal(t, cluster.NotApplied, cluster.OutcomeOf(err))
}

// A6.
func TestNoSpaceIsUnknownAndADeleteStillWorks(t *testing.T) {
	t.Parallel()
	c, _ := connect(t, cluster.Config{Endpoints: []string{startEtcd(t, "http://127.0.0.1:0", func(cfg *embed.Config) {
		cfg.QuotaBackendBytes = 256 << 10
		cfg.BackendBatchLimit = 1 // the size in use is known after each commit
	})}})
	var err error
	for range 1000 {
		if _, err = c.Txn(t.Context(), cluster.Request{Op: "txn"}, put("k", make([]byte, 32<<10))); err != nil {
			break
		}
	}
	require.True(t, cluster.IsNoSpace(err), err)
	require.ErrorIs(t, err, cluster.ErrUnknown)
	assert.Equal(t, cluster.Answered, cluster.OutcomeOf(err), "no copy of it can come")
	_, err = c.Txn(t.Context(), cluster.Request{Op: "txn"}, &pb.TxnRequest{Success: []*pb.RequestOp{{
		Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: &pb.DeleteRangeRequest{Key: []byte("k")}}}}})
	require.NoError(t, err)
}

// Hazards C1, C4: TCP takes the connection, and nobody answers.
func blackHole(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}

// How little time it takes, TestDialIsDoneWithTheFirstGoodAnswer and
// TestDialIntoBlackHolesEndsWithItsContext show where the clock is fake.
func TestABlackHoleHoldsUpNoDial(t *testing.T) {
	t.Parallel()
	hole, plain := blackHole(t), startPlain(t)
	c, _ := connect(t, cluster.Config{Endpoints: []string{hole, plain}})
	mustPut(t, c, "k")
	require.NoError(t, c.Close())

	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err := cluster.Dial(ctx, cluster.Config{Endpoints: []string{hole}})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, hole)
}

func TestWhatIsWrongWithAnEndpointIsSaidPlainly(t *testing.T) {
	t.Parallel()
	web := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(web.Close)
	gone, err := loopback.Reserve()
	require.NoError(t, err)
	t.Cleanup(gone.Release)
	ca := pki.New(t)
	plain, secured := startPlain(t), startTLS(t, ca, false)
	mutual := startTLS(t, ca, true)
	for _, tc := range []struct {
		cfg  cluster.Config
		want string
	}{
		{cluster.Config{Endpoints: []string{strings.TrimPrefix(web.URL, "http://")}}, "not an etcd server"},
		{cluster.Config{Endpoints: []string{gone.String()}}, "nobody listens there"},
		{cluster.Config{Endpoints: []string{"unix://" + t.TempDir() + "/none"}}, "nobody listens there"},
		{cluster.Config{Endpoints: []string{plain}, TLS: ca.Client("")}, "not speak TLS"},
		{cluster.Config{Endpoints: []string{secured}}, "one that wants TLS"},
		{cluster.Config{Endpoints: []string{"https://" + secured}}, "TLS failed"},
		{cluster.Config{Endpoints: []string{mutual}, TLS: ca.Client("")}, "certificate"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), testscale.Hang)
		_, err := cluster.Dial(ctx, tc.cfg)
		cancel()
		if assert.Error(t, err, tc.want) {
			assert.Contains(t, err.Error(), tc.want)
			assert.Contains(t, err.Error(), strings.TrimPrefix(tc.cfg.Endpoints[0], "https://"))
			assert.NotErrorIs(t, err, context.DeadlineExceeded, tc.want)
		}
	}
}

// A stopped process' kernel goes on taking connections, as a listener does that nobody accepts from.
func TestAFrozenServerIsNotCalledAnotherKindOfServer(t *testing.T) {
	t.Parallel()
	frozen, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer frozen.Close()
	for _, within := range []time.Duration{time.Second, 6 * time.Second} {
		ctx, cancel := context.WithTimeout(t.Context(), within)
		_, err := cluster.Dial(ctx, cluster.Config{Endpoints: []string{frozen.Addr().String()}})
		cancel()
		require.Error(t, err)
		t.Log(err)
		assert.NotContains(t, err.Error(), ": not an etcd server")
		assert.Regexp(t, "says nothing: stopped, overloaded|no answer yet", err.Error())
	}
}

func TestTLSAndMutualTLS(t *testing.T) {
	t.Parallel()
	ca := pki.New(t)
	c, _ := connect(t, cluster.Config{Endpoints: []string{"https://" + startTLS(t, ca, false)}, TLS: ca.Client("")})
	mustPut(t, c, "k")
	c, _ = connect(t, cluster.Config{Endpoints: []string{startTLS(t, ca, true)}, TLS: ca.Client("alice")})
	mustPut(t, c, "k")
}

// enableAuth makes root, and alice who may write under "a/".
func enableAuth(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	auth := pb.NewAuthClient(c.Pick())
	ctx, _, err := c.Outgoing(t.Context(), c.Pick())
	require.NoError(t, err)
	for _, user := range []string{"root", "alice"} {
		_, err = auth.UserAdd(ctx, &pb.AuthUserAddRequest{Name: user, Password: password})
		require.NoError(t, err)
		_, err = auth.RoleAdd(ctx, &pb.AuthRoleAddRequest{Name: user})
		require.NoError(t, err)
		_, err = auth.UserGrantRole(ctx, &pb.AuthUserGrantRoleRequest{User: user, Role: user})
		require.NoError(t, err)
	}
	grantAlice(t, c, "a/")
	_, err = auth.AuthEnable(ctx, &pb.AuthEnableRequest{})
	require.NoError(t, err)
}

func grantAlice(t *testing.T, c *cluster.Cluster, prefix string) {
	t.Helper()
	ctx, _, err := c.Outgoing(t.Context(), c.Pick())
	require.NoError(t, err)
	end := prefix[:len(prefix)-1] + string(prefix[len(prefix)-1]+1)
	_, err = pb.NewAuthClient(c.Pick()).RoleGrantPermission(ctx, &pb.AuthRoleGrantPermissionRequest{Name: "alice", Perm: permission(prefix, end)})
	require.NoError(t, err)
}

// withAuth starts an etcd that demands authentication.
func withAuth(t *testing.T) (addr string, root *cluster.Cluster) {
	t.Helper()
	addr = startEtcd(t, "http://127.0.0.1:0", func(cfg *embed.Config) { cfg.BcryptCost = 4 })
	plain, _ := connect(t, cluster.Config{Endpoints: []string{addr}})
	enableAuth(t, plain)
	root, _ = connect(t, cluster.Config{Endpoints: []string{addr}, Username: "root", Password: password})
	return addr, root
}

// Hazard C5.
func TestAnExpiredTokenIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := embedded.Start(t, embedded.Options{TokenTTL: time.Second})
		there := cluster.Config{Endpoints: s.Endpoints(), DialOptions: []grpc.DialOption{s.DialOption()}}
		plain, _ := connect(t, there)
		enableAuth(t, plain)
		there.Username, there.Password = "alice", password
		c, log := connect(t, there)
		mustPut(t, c, "a/k")
		_, before, err := c.Outgoing(t.Context(), c.Pick())
		require.NoError(t, err)
		time.Sleep(2500 * time.Millisecond) // etcd looks once a second
		mustPut(t, c, "a/k")
		_, after, err := c.Outgoing(t.Context(), c.Pick())
		require.NoError(t, err)
		assert.NotEqual(t, before, after)
		assert.NotContains(t, log.String(), before)
		assert.NotContains(t, log.String(), after)
	})
}

func TestPermissionsThatChangeMakeTokensOldAndAreFollowed(t *testing.T) {
	t.Parallel()
	addr, root := withAuth(t)
	c, _ := connect(t, cluster.Config{Endpoints: []string{addr}, Username: "alice", Password: password})
	mustPut(t, c, "a/k")
	_, err := c.Txn(t.Context(), cluster.Request{Op: "txn"}, put("b/k", nil))
	require.True(t, cluster.IsPermissionDenied(err), err)
	assert.Equal(t, cluster.NotApplied, cluster.OutcomeOf(err))
	grantAlice(t, root, "b/")
	mustPut(t, c, "b/k")
}

// Hazard C6.
func TestARealServersAuthenticationIsToggled(t *testing.T) {
	t.Parallel()
	addr, root := withAuth(t)
	c, _ := connect(t, cluster.Config{Endpoints: []string{addr}, Username: "alice", Password: password})
	mustPut(t, c, "a/k")
	ctx, _, err := root.Outgoing(t.Context(), root.Pick())
	require.NoError(t, err)
	_, err = pb.NewAuthClient(root.Pick()).AuthDisable(ctx, &pb.AuthDisableRequest{})
	require.NoError(t, err)
	mustPut(t, c, "free")
	fresh, _ := connect(t, cluster.Config{Endpoints: []string{addr}, Username: "alice", Password: password})
	mustPut(t, fresh, "free")
	_, token, err := fresh.Outgoing(t.Context(), fresh.Pick())
	require.NoError(t, err)
	require.Empty(t, token)
	_, err = pb.NewAuthClient(root.Pick()).AuthEnable(ctx, &pb.AuthEnableRequest{})
	require.NoError(t, err)
	for _, c := range []*cluster.Cluster{c, fresh} {
		mustPut(t, c, "a/k")
		_, err = c.Txn(t.Context(), cluster.Request{Op: "txn"}, put("free", nil))
		require.True(t, cluster.IsPermissionDenied(err), err)
	}
}

func TestDialReportsWrongCredentials(t *testing.T) {
	t.Parallel()
	addr, _ := withAuth(t)
	for user, want := range map[string]string{
		"alice": fmt.Sprintf(`authenticate user "alice" at %s: etcdserver: authentication failed`, addr),
		"bob":   fmt.Sprintf(`authenticate user "bob" at %s: etcdserver: authentication failed`, addr),
		"":      "the cluster demands authentication, and there is no user name",
	} {
		cfg := cluster.Config{Endpoints: []string{addr}, Username: user}
		if user != "" {
			cfg.Password = "wrong-password"
		}
		_, err := cluster.Dial(t.Context(), cfg)
		require.ErrorContains(t, err, want)
		assert.NotContains(t, err.Error(), "wrong-password")
	}
}

// Hazard C7.
func TestACertificatesNameIsAnIdentity(t *testing.T) {
	t.Parallel()
	ca := pki.New(t)
	addr := startTLS(t, ca, true)
	admin, _ := connect(t, cluster.Config{Endpoints: []string{addr}, TLS: ca.Client("root")})
	enableAuth(t, admin)
	c, _ := connect(t, cluster.Config{Endpoints: []string{addr}, TLS: ca.Client("alice")})
	mustPut(t, c, "a/k")
	_, err := c.Txn(t.Context(), cluster.Request{Op: "txn"}, put("b/k", nil))
	require.True(t, cluster.IsPermissionDenied(err), err)
	grantAlice(t, admin, "b/")
	mustPut(t, c, "b/k")
}
