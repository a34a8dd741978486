package etcdfake

import (
	"context"
	"testing"
	"testing/synctest"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/pawl-locks/pawl/internal/testkit/leaks"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

func TestMain(m *testing.M) { leaks.VerifyTestMain(m) }

// client is what a test holds of one member.
type client struct {
	pb.KVClient
	pb.LeaseClient
	pb.WatchClient
	pb.MaintenanceClient
	pb.ClusterClient
	pb.AuthClient
	conn *grpc.ClientConn
}

// connect connects to member i until the end of the test.
func connect(t *testing.T, c *Cluster, i int) *client {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+c.Endpoints()[i], c.DialOption(),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return &client{
		pb.NewKVClient(conn), pb.NewLeaseClient(conn), pb.NewWatchClient(conn),
		pb.NewMaintenanceClient(conn), pb.NewClusterClient(conn), pb.NewAuthClient(conn), conn,
	}
}

// inBubble runs f in a bubble, with a cluster that lives as long as it.
func inBubble(t *testing.T, o Options, f func(t *testing.T, c *Cluster)) {
	synctest.Test(t, func(t *testing.T) {
		c := New(o)
		t.Cleanup(c.Close)
		f(t, c)
	})
}

func put(k, v string, lease int64) *pb.PutRequest {
	return &pb.PutRequest{Key: []byte(k), Value: []byte(v), Lease: lease}
}

func get(k string) *pb.RangeRequest { return &pb.RangeRequest{Key: []byte(k)} }

func needLeader(ctx context.Context) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "hasleader", "true")
}
