package etcdfake

import (
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// BenchmarkTxn is what one guarded write costs, gRPC included.
func BenchmarkTxn(b *testing.B) {
	c := New(Options{})
	defer c.Close()
	conn, err := grpc.NewClient("passthrough:///"+c.Endpoints()[0], c.DialOption(),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	kv := pb.NewKVClient(conn)
	t := &pb.TxnRequest{Success: []*pb.RequestOp{
		{Request: &pb.RequestOp_RequestPut{RequestPut: put("k", "v", 0)}},
		{Request: &pb.RequestOp_RequestRange{RequestRange: get("k")}}}}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := kv.Txn(b.Context(), t); err != nil {
			b.Fatal(err)
		}
	}
}
