package txn

import (
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/internal/etcdapi"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
)

// everything is a transaction of all that this package builds.
func everything() *pb.TxnRequest {
	return &pb.TxnRequest{
		Compare: []*pb.Compare{CreateIs("k", 7), NoneUnder("p/"), ModIs("k", 8)},
		Success: []*pb.RequestOp{Put("k", []byte("v"), 9), Delete("k"), Get("k"), Stat("k"), LastUnder("p/", 2, 6), FirstUnder("p/", 1)},
	}
}

func TestPartsAreTheMessagesThatTheySay(t *testing.T) {
	key, prefix, end := []byte("k"), []byte("p/"), []byte("p0")
	read := func(r *pb.RangeRequest) *pb.RequestOp {
		return &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: r}}
	}
	create := func(rev int64) *pb.Compare_CreateRevision { return &pb.Compare_CreateRevision{CreateRevision: rev} }
	want := &pb.TxnRequest{
		Compare: []*pb.Compare{
			{Key: key, Target: pb.Compare_CREATE, Result: pb.Compare_EQUAL, TargetUnion: create(7)},
			{Key: prefix, RangeEnd: end, Target: pb.Compare_CREATE, Result: pb.Compare_EQUAL, TargetUnion: create(0)},
			{Key: key, Target: pb.Compare_MOD, Result: pb.Compare_EQUAL, TargetUnion: &pb.Compare_ModRevision{ModRevision: 8}},
		},
		Success: []*pb.RequestOp{
			{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: key, Value: []byte("v"), Lease: 9}}},
			{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: &pb.DeleteRangeRequest{Key: key}}},
			read(&pb.RangeRequest{Key: key}),
			read(&pb.RangeRequest{Key: key, KeysOnly: true}),
			read(&pb.RangeRequest{
				Key: prefix, RangeEnd: end, Limit: 2, KeysOnly: true, MaxCreateRevision: 6,
				SortOrder: pb.RangeRequest_DESCEND, SortTarget: pb.RangeRequest_CREATE,
			}),
			read(&pb.RangeRequest{
				Key: prefix, RangeEnd: end, Limit: 1, KeysOnly: true,
				SortOrder: pb.RangeRequest_ASCEND, SortTarget: pb.RangeRequest_CREATE,
			}),
		},
	}
	assert.True(t, etcdapi.Equal(want, everything()), "want %v\ngot  %v", want, everything())
}

// H3: no read is serializable.
// rule: H3
func TestNoReadIsSerializable(t *testing.T) {
	for _, op := range everything().Success {
		assert.False(t, op.GetRequestRange().GetSerializable(), "%v", op)
	}
}

func TestAPrefixOfHighBytesEndsBehindAllKeys(t *testing.T) {
	assert.Equal(t, []byte{0}, PrefixEnd("\xff\xff"))
	assert.Equal(t, []byte{'b'}, PrefixEnd("a\xff"))
	assert.Equal(t, []byte("a0"), PrefixEnd("a/"))
}

func TestAPartIsOneAllocation(t *testing.T) {
	key := []byte("key")
	var c *pb.Compare
	var op *pb.RequestOp
	assert.Equal(t, 1.0, testing.AllocsPerRun(100, func() { c = CreateIs(key, 1) }))
	assert.Equal(t, 1.0, testing.AllocsPerRun(100, func() { op = Stat(key) }))
	assert.Equal(t, 1.0, testing.AllocsPerRun(100, func() { op = Put(key, key, 1) }))
	assert.Equal(t, 1.0, testing.AllocsPerRun(100, func() { op = Nested(nil) }))
	_, _ = c, op
}

// BenchmarkTwo makes the two transactions of an uncontended acquisition and its release.
func BenchmarkTwo(b *testing.B) {
	key, cancel, value, from, to := []byte("/n/81c4-1"), []byte("//s/81c4/1"), make([]byte, 60), []byte("/n/81c4-"), []byte("/n/81c4.")
	same := ModIs("//s/81c4", 5)
	var enqueue, release *pb.TxnRequest
	b.ReportAllocs()
	for b.Loop() {
		enqueue, release = New(), New()
		enqueue.Compare = append(enqueue.Compare, CreateIs(key, 0), CreateIs(cancel, 0), same)
		enqueue.Success = append(enqueue.Success, Put(key, value, 9))
		enqueue.Success = append(enqueue.Success, LastBetween(key, from, 0), LastBetween(to, from, 0))
		enqueue.Compare = append(enqueue.Compare, NoneBetween(from, to))
		release.Compare = append(release.Compare, CreateIs(key, 7))
		release.Compare = append(release.Compare, ModIs(key, 7))
		release.Success = append(release.Success, Delete(key))
		release.Failure = append(release.Failure, Stat(key))
	}
	_, _ = enqueue, release
}
