package lock_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/txn"
	"github.com/pawl-locks/pawl/lock"
)

// BenchmarkAcquireRelease puts an acquisition and release with nobody else there
// beside the same two requests on the bare stubs.
func BenchmarkAcquireRelease(b *testing.B) {
	endpoint := child(b, "server").said("endpoint") // in a process of its own, so that its allocations are not counted
	b.Run("bare", func(b *testing.B) { benchmarkBare(b, endpoint) })
	b.Run("pawl", func(b *testing.B) { benchmarkPawl(b, endpoint) })
}

func benchmarkPawl(b *testing.B, endpoint string) {
	ctx := context.Background()
	c, err := pawl.Dial(ctx, pawl.Config{Endpoints: []string{endpoint}})
	require.NoError(b, err)
	defer c.Close()
	s, err := c.Session(ctx)
	require.NoError(b, err)
	m := lock.New(s, "bench", lock.Options{})
	b.ReportAllocs()
	for b.Loop() {
		h, err := m.Acquire(ctx)
		if err != nil {
			b.Fatal(err)
		}
		if err := h.Release(ctx); err != nil {
			b.Fatal(err)
		}
	}
}

// benchmarkBare sends the same two transactions, with the same metadata.
func benchmarkBare(b *testing.B, endpoint string) {
	ctx := metadata.AppendToOutgoingContext(context.Background(), "hasleader", "true")
	conn, err := grpc.NewClient("passthrough:///"+strings.TrimPrefix(endpoint, "http://"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(b, err)
	defer conn.Close()
	kv := pb.NewKVClient(conn)
	l, err := pb.NewLeaseClient(conn).LeaseGrant(ctx, &pb.LeaseGrantRequest{TTL: 60})
	require.NoError(b, err)
	_, err = kv.Txn(ctx, &pb.TxnRequest{Success: []*pb.RequestOp{txn.Put("bare-session", nil, l.ID)}})
	require.NoError(b, err)
	session, err := kv.Range(ctx, &pb.RangeRequest{Key: []byte("bare-session")})
	require.NoError(b, err)
	mod := session.Kvs[0].ModRevision
	b.ReportAllocs()
	for b.Loop() {
		resp, err := kv.Txn(ctx, &pb.TxnRequest{
			Compare: []*pb.Compare{txn.CreateIs("bare/1", 0), txn.CreateIs("bare-session/1", 0), txn.ModIs("bare-session", mod)},
			Success: []*pb.RequestOp{txn.Put("bare/1", []byte("holder"), l.ID), txn.LastUnder("bare/", 2, 0)},
			Failure: []*pb.RequestOp{txn.Look("bare-session"), txn.Look("bare/1"), txn.Look("bare-session/1")},
		})
		if err != nil || !resp.Succeeded {
			b.Fatal(resp, err)
		}
		resp, err = kv.Txn(ctx, &pb.TxnRequest{
			Compare: []*pb.Compare{txn.CreateIs("bare/1", txn.KV(resp, 1).CreateRevision)},
			Success: []*pb.RequestOp{txn.Delete("bare/1")},
		})
		if err != nil || !resp.Succeeded {
			b.Fatal(resp, err)
		}
	}
}
