package txn

import (
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
)

// read is the answer of an operation that read keys of these names.
func read(names ...string) *pb.ResponseOp {
	r := &pb.RangeResponse{Count: int64(len(names))}
	for _, name := range names {
		r.Kvs = append(r.Kvs, &mvccpb.KeyValue{Key: []byte(name)})
	}
	return &pb.ResponseOp{Response: &pb.ResponseOp_ResponseRange{ResponseRange: r}}
}

func TestOperationsFindTheirOwnAnswers(t *testing.T) {
	request := &pb.TxnRequest{}
	Then(request, Put("a", nil, 0))
	own := Then(request, Stat("b"), Stat("c"))
	last := Then(request, LastUnder("p/", 2, 0))
	otherwise := Else(request, Stat("d"))
	applied := &pb.TxnResponse{Succeeded: true, Responses: []*pb.ResponseOp{{}, read("b"), read(), read("p/1", "p/2")}}
	assert.Equal(t, "b", string(own.In(applied).KV(0).Key))
	assert.Nil(t, own.In(applied).KV(1))
	assert.Len(t, last.In(applied).KVs(0), 2)
	assert.Equal(t, 2, last.In(applied).Count())
	var all []string
	for kv := range own.In(applied).All() {
		all = append(all, string(kv.Key))
	}
	assert.Equal(t, []string{"b"}, all)
	assert.Empty(t, otherwise.In(applied), "the other branch ran")

	refused := &pb.TxnResponse{Responses: []*pb.ResponseOp{read("d")}}
	assert.Equal(t, "d", string(otherwise.In(refused).KV(0).Key))
	assert.Empty(t, own.In(refused))
	assert.Empty(t, last.In(&pb.TxnResponse{Succeeded: true}), "an answer with too little in it")
	assert.Empty(t, Ops{}.In(applied), "no operation")
	assert.Empty(t, own.In(nil))
}

func TestWhatIsNotInAnAnswerIsEmpty(t *testing.T) {
	for name, a := range map[string]Answers{"no answer": nil, "an empty one": {{}}, "of another kind": {read("k")}} {
		assert.Zero(t, PutRevision(&pb.TxnResponse{Responses: a}, 0), name)
		assert.Nil(t, a.Deleted(0), name)
		assert.Nil(t, a.Nested(0), name)
		assert.Nil(t, a.KV(1), name)
	}
}
