package txn

import (
	"iter"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// Ops are consecutive operations of a transaction. They find their answers, so that a reader of the
// answer need not know what else the transaction does.
type Ops struct {
	first, n  int
	otherwise bool // they are in the branch of a comparison that failed
}

// Then adds ops to what t does if its comparisons succeed.
func Then(t *pb.TxnRequest, ops ...*pb.RequestOp) Ops {
	t.Success = append(t.Success, ops...)
	return Ops{first: len(t.Success) - len(ops), n: len(ops)}
}

// Else adds ops to what t does if one of its comparisons fails.
func Else(t *pb.TxnRequest, ops ...*pb.RequestOp) Ops {
	t.Failure = append(t.Failure, ops...)
	return Ops{len(t.Failure) - len(ops), len(ops), true}
}

// In returns the answers to o in the answer to its transaction. It returns none if the other branch
// ran.
func (o Ops) In(resp *pb.TxnResponse) Answers {
	if resp.GetSucceeded() == o.otherwise || o.first+o.n > len(resp.GetResponses()) {
		return nil
	}
	return resp.Responses[o.first : o.first+o.n]
}

// Answers are the answers to consecutive operations. An answer that is not there is empty.
type Answers []*pb.ResponseOp

// at is the i-th answer, or nil, which the messages' methods accept.
func (a Answers) at(i int) *pb.ResponseOp {
	if i >= len(a) {
		return nil
	}
	return a[i]
}

// KVs are the keys that the i-th operation read.
func (a Answers) KVs(i int) []*mvccpb.KeyValue { return a.at(i).GetResponseRange().GetKvs() }

// KV is the first key that the i-th operation read, or nil if it read none.
func (a Answers) KV(i int) *mvccpb.KeyValue { return firstOf(a.KVs(i)) }

// All yields the keys that all of the operations read.
func (a Answers) All() iter.Seq[*mvccpb.KeyValue] {
	return func(yield func(*mvccpb.KeyValue) bool) {
		for i := range a {
			for _, kv := range a.KVs(i) {
				if !yield(kv) {
					return
				}
			}
		}
	}
}

// Count is how many keys exist in the ranges of the operations, regardless of their limits and
// their revision bounds.
func (a Answers) Count() (n int) {
	for i := range a {
		n += int(a[i].GetResponseRange().GetCount())
	}
	return n
}

// Deleted is the key that the i-th operation deleted, as DeletePrevious returns it, or nil if there was
// none.
func (a Answers) Deleted(i int) *mvccpb.KeyValue {
	return firstOf(a.at(i).GetResponseDeleteRange().GetPrevKvs())
}

// Nested is the answer to the transaction that is the i-th operation, or nil.
func (a Answers) Nested(i int) *pb.TxnResponse { return a.at(i).GetResponseTxn() }

func firstOf(kvs []*mvccpb.KeyValue) *mvccpb.KeyValue {
	if len(kvs) > 0 {
		return kvs[0]
	}
	return nil
}

// The following functions read an answer by the index of an operation, for transactions that have few.

// KVs are the keys that the i-th operation of the branch that ran returned.
func KVs(resp *pb.TxnResponse, i int) []*mvccpb.KeyValue {
	return Answers(resp.GetResponses()).at(i).GetResponseRange().GetKvs()
}

// KV is the one key that the i-th operation of the branch that ran returned, or nil.
func KV(resp *pb.TxnResponse, i int) *mvccpb.KeyValue { return firstOf(KVs(resp, i)) }

// Count is how many keys exist in the range that the i-th operation of the branch that ran read.
func Count(resp *pb.TxnResponse, i int) int {
	return int(Answers(resp.GetResponses()).at(i).GetResponseRange().GetCount())
}

// PutRevision is the revision at which the i-th operation of the branch that ran put its key, or 0 if
// it put none.
func PutRevision(resp *pb.TxnResponse, i int) int64 {
	return Answers(resp.GetResponses()).at(i).GetResponsePut().GetHeader().GetRevision()
}
