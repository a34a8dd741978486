package conformance

import (
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

func cmpTo(k string, result pb.Compare_CompareResult, c *pb.Compare) *pb.Compare {
	c.Key, c.Result = []byte(k), result
	return c
}

func create(rev int64) *pb.Compare {
	return &pb.Compare{Target: pb.Compare_CREATE, TargetUnion: &pb.Compare_CreateRevision{CreateRevision: rev}}
}

func modified(rev int64) *pb.Compare {
	return &pb.Compare{Target: pb.Compare_MOD, TargetUnion: &pb.Compare_ModRevision{ModRevision: rev}}
}

func version(v int64) *pb.Compare {
	return &pb.Compare{Target: pb.Compare_VERSION, TargetUnion: &pb.Compare_Version{Version: v}}
}

func leased(id int64) *pb.Compare {
	return &pb.Compare{Target: pb.Compare_LEASE, TargetUnion: &pb.Compare_Lease{Lease: id}}
}

func valued(v string) *pb.Compare {
	return &pb.Compare{Target: pb.Compare_VALUE, TargetUnion: &pb.Compare_Value{Value: []byte(v)}}
}

func over(end string, c *pb.Compare) *pb.Compare {
	c.RangeEnd = []byte(end)
	return c
}

// many are n reads of one key.
func many(n int) (out []*pb.RequestOp) {
	for range n {
		out = append(out, opGet(span("a", "")))
	}
	return out
}

var txnScripts = []script{
	{"comparisons", func(r *rig) {
		r.grant(7, 60)
		r.puts("a", "a", "b")
		r.put(&pb.PutRequest{Key: []byte("c"), Lease: 7})
		for _, key := range []string{"a", "c", "nothing"} {
			for result := range pb.Compare_CompareResult(4) {
				for _, make := range []func() *pb.Compare{
					func() *pb.Compare { return create(0) }, func() *pb.Compare { return create(2) },
					func() *pb.Compare { return modified(3) }, func() *pb.Compare { return version(2) },
					func() *pb.Compare { return leased(7) }, func() *pb.Compare { return leased(0) },
					func() *pb.Compare { return valued("va") }, func() *pb.Compare { return valued("") },
					func() *pb.Compare { return over("z", create(2)) }, func() *pb.Compare { return over("z", create(0)) },
					func() *pb.Compare { return over("\x00", modified(9)) }, func() *pb.Compare { return over("z", valued("")) },
				} {
					r.txn(&pb.TxnRequest{Compare: []*pb.Compare{cmpTo(key, result, make())}, Success: many(1)})
				}
			}
		}
		r.txn(&pb.TxnRequest{Compare: []*pb.Compare{
			cmpTo("a", pb.Compare_EQUAL, version(2)), cmpTo("b", pb.Compare_EQUAL, version(2))}, Failure: many(1)})
	}},
	{"headers of what writes and what does not", func(r *rig) {
		r.txn(&pb.TxnRequest{})
		r.txn(&pb.TxnRequest{Success: many(1)})
		r.txn(&pb.TxnRequest{Success: ops(opDel(&pb.DeleteRangeRequest{Key: []byte("x")}), opGet(span("a", "")))})
		r.txn(&pb.TxnRequest{Success: ops(opGet(span("a", "z")), opPut(kput("a", "1")), opGet(span("a", "z")),
			opPut(kput("b", "1")), opDel(&pb.DeleteRangeRequest{Key: []byte("c")}), opGet(span("a", "z")))})
		r.txn(&pb.TxnRequest{Success: ops(opDel(&pb.DeleteRangeRequest{Key: []byte("a"), PrevKv: true}),
			opGet(span("a", "z")), opPut(&pb.PutRequest{Key: []byte("b"), PrevKv: true}), opDel(&pb.DeleteRangeRequest{Key: []byte("x")}))})
		r.txn(&pb.TxnRequest{Failure: ops(opPut(kput("z", "1")))})
		r.get(span("a", "\x00"))
	}},
	{"created first and last in one transaction", func(r *rig) {
		r.puts("q/1", "q/2", "q/3")
		last := span("q/", "q0")
		last.KeysOnly, last.Limit, last.SortTarget, last.SortOrder = true, 2, pb.RangeRequest_CREATE, pb.RangeRequest_DESCEND
		r.txn(&pb.TxnRequest{
			Compare: []*pb.Compare{cmpTo("q/4", pb.Compare_EQUAL, create(0)), cmpTo("q/1", pb.Compare_EQUAL, modified(2))},
			Success: ops(opPut(kput("q/4", "me")), opGet(last)),
		})
		before := span("q/", "q0")
		before.KeysOnly, before.Limit, before.MaxCreateRevision = true, 1, 4
		before.SortTarget, before.SortOrder = pb.RangeRequest_CREATE, pb.RangeRequest_DESCEND
		r.txn(&pb.TxnRequest{Compare: []*pb.Compare{cmpTo("q/4", pb.Compare_EQUAL, create(5))}, Success: ops(opGet(before))})
	}},
	{"nested transactions", func(r *rig) {
		r.puts("a")
		inner := &pb.TxnRequest{
			Compare: []*pb.Compare{cmpTo("a", pb.Compare_EQUAL, version(1))},
			Success: ops(opPut(kput("b", "then")), opTxn(&pb.TxnRequest{Success: ops(opPut(kput("c", "1")))})),
			Failure: ops(opPut(kput("b", "else"))),
		}
		r.txn(&pb.TxnRequest{Success: ops(opPut(kput("a", "2")), opTxn(inner), opGet(span("a", "z")))})
		r.txn(&pb.TxnRequest{Success: ops(opTxn(inner), opTxn(&pb.TxnRequest{}), opGet(span("a", "z")))})
		r.txn(&pb.TxnRequest{Success: ops(opTxn(&pb.TxnRequest{Success: many(1)}))})
		r.txn(&pb.TxnRequest{Compare: []*pb.Compare{cmpTo("a", pb.Compare_EQUAL, version(9))}, Failure: ops(opTxn(inner))})
	}},
	{"keys given twice", func(r *rig) {
		put, del := opPut(kput("k", "1")), opDel(&pb.DeleteRangeRequest{Key: []byte("k")})
		all := opDel(&pb.DeleteRangeRequest{Key: []byte("a"), RangeEnd: []byte("z")})
		open := opDel(&pb.DeleteRangeRequest{Key: []byte("a"), RangeEnd: []byte("\x00")})
		other := opPut(kput("o", "1"))
		nest := func(then, els []*pb.RequestOp) *pb.RequestOp {
			return opTxn(&pb.TxnRequest{Success: then, Failure: els})
		}
		for i, branch := range [][]*pb.RequestOp{
			{put, put}, {put, del}, {del, put}, {all, put}, {open, put}, {del, del}, {other, put},
			{put, nest(ops(put), nil)}, {nest(ops(put), ops(put))}, {nest(ops(put), ops(put)), put},
			{nest(ops(put), nil), nest(ops(put), nil)}, {nest(nil, ops(put)), nest(nil, ops(put))},
			{nest(ops(del), nil), put}, {del, nest(ops(put), nil)}, {nest(ops(put), nil), nest(ops(del), nil)},
			{nest(ops(del), nil), nest(ops(put), nil)}, {nest(ops(put), ops(del))}, {nest(ops(nest(ops(put), nil)), nil), put},
		} {
			r.note(fmt.Sprint("branch ", i), &pb.TxnRequest{}, nil)
			r.txn(&pb.TxnRequest{Success: branch})
			r.txn(&pb.TxnRequest{Failure: branch})
		}
		r.get(span("a", "z"))
	}},
	{"too many operations", func(r *rig) {
		r.txn(&pb.TxnRequest{Success: many(128)})
		r.txn(&pb.TxnRequest{Success: many(129)})
		r.txn(&pb.TxnRequest{Failure: many(129)})
		compares := make([]*pb.Compare, 129)
		for i := range compares {
			compares[i] = cmpTo("a", pb.Compare_EQUAL, create(0))
		}
		r.txn(&pb.TxnRequest{Compare: compares[:128]})
		r.txn(&pb.TxnRequest{Compare: compares})
		r.txn(&pb.TxnRequest{Compare: compares[:100], Success: ops(opTxn(&pb.TxnRequest{Success: many(28)}))})
		r.txn(&pb.TxnRequest{Compare: compares[:100], Success: ops(opTxn(&pb.TxnRequest{Success: many(29)}))})
	}},
	{"refused before anything is applied", func(r *rig) {
		r.puts("a")
		bad := []*pb.RequestOp{
			opPut(&pb.PutRequest{Key: []byte("c"), Lease: 99}), opPut(&pb.PutRequest{Key: []byte("c"), IgnoreValue: true}),
			opPut(&pb.PutRequest{Key: []byte("c"), IgnoreLease: true}), opPut(&pb.PutRequest{}), opGet(&pb.RangeRequest{}),
			opGet(&pb.RangeRequest{Key: []byte("a"), Revision: 99}), {}, opDel(&pb.DeleteRangeRequest{}),
			opTxn(&pb.TxnRequest{Success: ops(opPut(&pb.PutRequest{Key: []byte("c"), Lease: 99}))}),
			opTxn(&pb.TxnRequest{Failure: ops(opPut(&pb.PutRequest{Key: []byte("c"), Lease: 99}))}),
		}
		for _, op := range bad {
			r.txn(&pb.TxnRequest{Success: ops(opPut(kput("b", "1")), op)})
		}
		r.txn(&pb.TxnRequest{Compare: []*pb.Compare{{}}})
		r.get(span("a", "z"))
	}},
}
