package etcdfake

import (
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// write is one transaction on the state: all its changes get one revision.
type write struct {
	*state
	events []*mvccpb.Event
}

// revision is that of the changes if there are any, else of the last ones.
func (w *write) revision() int64 {
	if len(w.events) > 0 {
		return w.store.rev + 1
	}
	return w.store.rev
}

func (w *write) view() view { return view{w.store, w.revision()} }

// done makes the changes visible and returns the revision of the answer.
func (w *write) done(why Cause) int64 {
	if len(w.events) > 0 {
		w.store.commit(w.revision(), w.events)
		w.committed(w.events, why)
	}
	return w.store.rev
}

func (w *write) put(r *pb.PutRequest) *pb.PutResponse {
	key := string(r.Key)
	old, there := w.view().at(key, w.revision())
	value, lease := r.Value, r.Lease
	if r.IgnoreValue {
		value = old.value
	}
	if r.IgnoreLease {
		lease = old.lease
	}
	resp := &pb.PutResponse{}
	if r.PrevKv && there {
		resp.PrevKv = old.kv(key)
	}
	w.events = append(w.events, w.store.put(w.store.rev+1, key, value, lease))
	w.lessor.move(key, lease)
	resp.Header = &pb.ResponseHeader{Revision: w.revision()}
	return resp
}

func (w *write) deleteRange(r *pb.DeleteRangeRequest) *pb.DeleteRangeResponse {
	v := w.view()
	keys := slices.Clone(v.keys(string(r.Key), string(r.RangeEnd), v.rev))
	resp := &pb.DeleteRangeResponse{Deleted: int64(len(keys))}
	for _, k := range keys {
		if r.PrevKv {
			old, _ := v.at(k, v.rev)
			resp.PrevKvs = append(resp.PrevKvs, old.kv(k))
		}
		w.remove(k)
	}
	resp.Header = &pb.ResponseHeader{Revision: w.revision()}
	return resp
}

func (w *write) remove(key string) {
	w.events = append(w.events, w.store.remove(w.store.rev+1, key))
	w.lessor.move(key, 0)
}

// plan is which branch each transaction of a request takes, decided on the
// state before any of them runs.
type plan struct {
	succeeded bool
	ops       []*pb.RequestOp
	below     []plan // of the nested transactions among ops, in order
}

func (v view) plan(t *pb.TxnRequest) plan {
	p := plan{succeeded: true, ops: t.Success}
	for _, c := range t.Compare {
		if !v.holds(c) {
			p = plan{ops: t.Failure}
			break
		}
	}
	for _, op := range p.ops {
		if n := op.GetRequestTxn(); n != nil {
			p.below = append(p.below, v.plan(n))
		}
	}
	return p
}

// verify refuses what would fail half-way: nothing has been applied yet.
func (s *state) verify(v view, p plan) error {
	nested := 0
	for _, op := range p.ops {
		var err error
		switch o := op.Request.(type) {
		case *pb.RequestOp_RequestRange:
			err = v.verifyRevision(o.RequestRange.Revision)
		case *pb.RequestOp_RequestPut:
			err = s.verifyPut(v, o.RequestPut)
		case *pb.RequestOp_RequestTxn:
			err = s.verify(v, p.below[nested])
			nested++
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (v view) verifyRevision(rev int64) error {
	switch {
	case rev == 0:
		return nil
	case rev > v.rev:
		return rpctypes.ErrGRPCFutureRev
	case rev < v.compacted:
		return rpctypes.ErrGRPCCompacted
	}
	return nil
}

func (s *state) verifyPut(v view, r *pb.PutRequest) error {
	if r.Lease != 0 && s.lessor.leases[r.Lease] == nil {
		return rpctypes.ErrGRPCLeaseNotFound
	}
	if r.IgnoreValue || r.IgnoreLease {
		if _, ok := v.at(string(r.Key), v.rev); !ok {
			return rpctypes.ErrGRPCKeyNotFound
		}
	}
	return nil
}

// run carries out the plan. Ranges see the changes made before them in it.
func (w *write) run(p plan, reader func() view) (*pb.TxnResponse, error) {
	resp := &pb.TxnResponse{Succeeded: p.succeeded, Header: &pb.ResponseHeader{}}
	nested := 0
	for _, op := range p.ops {
		out := &pb.ResponseOp{}
		switch o := op.Request.(type) {
		case *pb.RequestOp_RequestRange:
			r, err := reader().read(o.RequestRange)
			if err != nil {
				return nil, err
			}
			out.Response = &pb.ResponseOp_ResponseRange{ResponseRange: r}
		case *pb.RequestOp_RequestPut:
			out.Response = &pb.ResponseOp_ResponsePut{ResponsePut: w.put(o.RequestPut)}
		case *pb.RequestOp_RequestDeleteRange:
			out.Response = &pb.ResponseOp_ResponseDeleteRange{ResponseDeleteRange: w.deleteRange(o.RequestDeleteRange)}
		case *pb.RequestOp_RequestTxn:
			r, err := w.run(p.below[nested], reader)
			if err != nil {
				return nil, err
			}
			nested++
			out.Response = &pb.ResponseOp_ResponseTxn{ResponseTxn: r}
		}
		resp.Responses = append(resp.Responses, out)
	}
	return resp, nil
}
