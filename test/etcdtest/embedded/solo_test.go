package embedded

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func connect(t *testing.T, s *Server) *grpc.ClientConn {
	conn, err := grpc.NewClient("passthrough:///"+s.Endpoints()[0], s.DialOption(),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// hour renews a lease for an hour, then lets it expire.
func hour(t *testing.T) {
	conn := connect(t, Start(t, Options{}))
	kv, lease := pb.NewKVClient(conn), pb.NewLeaseClient(conn)
	_, err := lease.LeaseGrant(t.Context(), &pb.LeaseGrantRequest{ID: 7, TTL: 10})
	require.NoError(t, err)
	p, err := kv.Put(t.Context(), &pb.PutRequest{Key: []byte("k"), Lease: 7})
	require.NoError(t, err)
	deleted := watch(t, conn, "k", p.Header.Revision+1)
	renew, err := lease.LeaseKeepAlive(t.Context())
	require.NoError(t, err)
	start := time.Now()
	for time.Since(start) < time.Hour {
		time.Sleep(9 * time.Second)
		require.NoError(t, renew.Send(&pb.LeaseKeepAliveRequest{ID: 7}))
		r, err := renew.Recv()
		require.NoError(t, err)
		require.Equal(t, int64(10), r.TTL)
	}
	start = time.Now()
	r, err := deleted.Recv()
	require.NoError(t, err)
	require.Len(t, r.Events, 1)
	assert.Equal(t, mvccpb.Event_DELETE, r.Events[0].Type)
	assert.GreaterOrEqual(t, time.Since(start), 10*time.Second)
	assert.LessOrEqual(t, time.Since(start), 10500*time.Millisecond)
}

func watch(t *testing.T, conn *grpc.ClientConn, key string, from int64) pb.Watch_WatchClient {
	w, err := pb.NewWatchClient(conn).Watch(t.Context())
	require.NoError(t, err)
	require.NoError(t, w.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{
		CreateRequest: &pb.WatchCreateRequest{Key: []byte(key), StartRevision: from}}}))
	r, err := w.Recv()
	require.NoError(t, err)
	require.True(t, r.Created)
	return w
}

func TestAnHourPassesInABubble(t *testing.T) {
	synctest.Test(t, hour) // a real one would outlast the tests' own limit
}

func TestBubblesCanRunAtTheSameTime(t *testing.T) {
	for range 3 {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, hour)
		})
	}
}

func TestStopEndsOpenStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Start(t, Options{})
		w := watch(t, connect(t, s), "k", 0)
		s.Stop()
		_, err := w.Recv()
		assert.Equal(t, codes.Unavailable, status.Code(err))
	})
}

func TestTokensExpireInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := connect(t, Start(t, Options{TokenTTL: 5 * time.Second}))
		auth, kv := pb.NewAuthClient(conn), pb.NewKVClient(conn)
		ctx := t.Context()
		_, err := auth.UserAdd(ctx, &pb.AuthUserAddRequest{Name: "root", Password: "p", Options: &authpb.UserAddOptions{}})
		require.NoError(t, err)
		_, err = auth.RoleAdd(ctx, &pb.AuthRoleAddRequest{Name: "root"})
		require.NoError(t, err)
		_, err = auth.UserGrantRole(ctx, &pb.AuthUserGrantRoleRequest{User: "root", Role: "root"})
		require.NoError(t, err)
		_, err = auth.AuthEnable(ctx, &pb.AuthEnableRequest{})
		require.NoError(t, err)
		token, err := auth.Authenticate(ctx, &pb.AuthenticateRequest{Name: "root", Password: "p"})
		require.NoError(t, err)
		ctx = metadata.AppendToOutgoingContext(ctx, "token", token.Token)
		_, err = kv.Put(ctx, &pb.PutRequest{Key: []byte("k")})
		require.NoError(t, err)
		time.Sleep(7 * time.Second)
		_, err = kv.Put(ctx, &pb.PutRequest{Key: []byte("k")})
		assert.Equal(t, codes.Unauthenticated, status.Code(err))
	})
}

func TestWorksOutsideOfABubble(t *testing.T) {
	_, err := pb.NewKVClient(connect(t, Start(t, Options{}))).Put(t.Context(), &pb.PutRequest{Key: []byte("k")})
	require.NoError(t, err)
}
