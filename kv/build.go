package kv

import (
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// request builds the transaction that is sent (K3):
//
//	If(guards' create revisions) Then(Txn(If conditions Then … Else …)) Else(read the guards' keys)
//
// so that a stale holder runs neither branch, and a failed guard differs from a failed condition.
// Without conditions Then contains the operations directly. Without guards only the inner transaction
// is sent.
func (t *Txn) request() *pb.TxnRequest {
	inner := &pb.TxnRequest{Success: requests(t.Then), Failure: requests(t.Else)}
	for _, cond := range t.If {
		inner.Compare = append(inner.Compare, cond.compare())
	}
	if len(inner.Success)+len(inner.Failure) == 0 {
		// Without any operation etcd would compare against this member's own state (F14, H3).
		inner.Success = append(inner.Success, read(t.someKey(), true))
	}
	if len(t.Guards) == 0 {
		return inner
	}
	outer := &pb.TxnRequest{Success: inner.Success}
	if len(t.If) > 0 {
		outer.Success = []*pb.RequestOp{{Request: &pb.RequestOp_RequestTxn{RequestTxn: inner}}}
	}
	for _, g := range t.Guards {
		outer.Compare = append(outer.Compare, g.compare())
		outer.Failure = append(outer.Failure, read(g.key, true))
	}
	return outer
}

// compare compares that the key still has this create revision, which is the token (K1).
func (g Guard) compare() *pb.Compare {
	return &pb.Compare{
		Key: []byte(g.key), Target: pb.Compare_CREATE, Result: pb.Compare_EQUAL,
		TargetUnion: &pb.Compare_CreateRevision{CreateRevision: int64(g.token)},
	}
}

// someKey is a key that the transaction uses anyway, so that its user may read it.
func (t *Txn) someKey() string {
	if len(t.Guards) > 0 {
		return t.Guards[0].key
	}
	return t.If[0].key
}

func requests(ops []Op) []*pb.RequestOp {
	out := make([]*pb.RequestOp, 0, len(ops))
	for _, op := range ops {
		out = append(out, op.request())
	}
	return out
}
