package batch

import (
	"math"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/internal/etcdapi"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/txn"
)

// sized are transactions with everything that the queue's writes contain, and with the largest numbers.
func sized() map[string]*pb.TxnRequest {
	key, end := make([]byte, 300), make([]byte, 200)
	read := &pb.RangeRequest{Key: key, RangeEnd: end, Limit: math.MaxInt64, Revision: math.MaxInt64,
		SortOrder: pb.RangeRequest_DESCEND, SortTarget: pb.RangeRequest_CREATE, Serializable: true, KeysOnly: true, CountOnly: true,
		MinModRevision: math.MaxInt64, MaxModRevision: math.MaxInt64, MinCreateRevision: math.MaxInt64, MaxCreateRevision: math.MaxInt64}
	compare := txn.CreateIs(key, math.MaxInt64)
	compare.RangeEnd = end
	put := &pb.PutRequest{Key: key, Value: make([]byte, 900), Lease: math.MaxInt64, PrevKv: true, IgnoreLease: true, IgnoreValue: true}
	remove := &pb.DeleteRangeRequest{Key: key, RangeEnd: end, PrevKv: true}
	value := &pb.Compare{Key: key, Result: pb.Compare_EQUAL, Target: pb.Compare_VALUE, TargetUnion: &pb.Compare_Value{Value: make([]byte, 700)}}
	ops := []*pb.RequestOp{{Request: &pb.RequestOp_RequestRange{RequestRange: read}}, {Request: &pb.RequestOp_RequestPut{RequestPut: put}},
		{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: remove}}}
	all := &pb.TxnRequest{Compare: []*pb.Compare{compare, value}, Success: ops, Failure: ops}
	return map[string]*pb.TxnRequest{
		"everything":   all,
		"one inside":   {Success: []*pb.RequestOp{txn.Nested(all)}},
		"several keys": {Success: []*pb.RequestOp{txn.Delete(key), txn.Delete(key), txn.Stat(key), txn.Get(key)}},
	}
}

// Rule G5: the bound in bytes holds for the requests as they are sent.
func TestTheSizeOfAWriteIsNotUnderestimated(t *testing.T) {
	for name, w := range sized() {
		part := etcdapi.Size(&pb.TxnRequest{Success: []*pb.RequestOp{txn.Nested(w)}})
		assert.GreaterOrEqual(t, sizeOf(w), part, name)
	}
}

func BenchmarkSizeOf(b *testing.B) {
	w := enqueue("jobs/").Txn
	b.Run("bound", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			sizeOf(w)
		}
	})
	b.Run("exact", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			etcdapi.Size(w)
		}
	})
}
