package etcd

import (
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// Write is one transaction on the state. All its changes get one revision.
type Write struct {
	*State
	events []*mvccpb.Event
}

// revision is that of the changes if there are any, else of the last ones.
func (w *Write) revision() int64 {
	if len(w.events) > 0 {
		return w.Store.Rev + 1
	}
	return w.Store.Rev
}

func (w *Write) view() View { return View{w.Store, w.revision()} }

// Done makes the changes visible and returns the revision of the answer.
func (w *Write) Done(why Cause) int64 {
	if len(w.events) > 0 {
		w.Store.commit(w.revision(), w.events)
		w.committed(w.events, why)
	}
	return w.Store.Rev
}

// Put puts a key.
func (w *Write) Put(r *pb.PutRequest) *pb.PutResponse {
	key := string(r.Key)
	old, there := w.view().At(key, w.revision())
	value, lease := r.Value, r.Lease
	if r.IgnoreValue {
		value = old.value
	}
	if r.IgnoreLease {
		lease = old.lease
	}
	resp := &pb.PutResponse{}
	if r.PrevKv && there {
		resp.PrevKv = old.Kv(key)
	}
	w.events = append(w.events, w.Store.put(w.Store.Rev+1, key, value, lease))
	w.Lessor.move(key, lease)
	resp.Header = &pb.ResponseHeader{Revision: w.revision()}
	return resp
}

// DeleteRange deletes a range of keys.
func (w *Write) DeleteRange(r *pb.DeleteRangeRequest) *pb.DeleteRangeResponse {
	v := w.view()
	keys := slices.Clone(v.Keys(string(r.Key), string(r.RangeEnd), v.Rev))
	resp := &pb.DeleteRangeResponse{Deleted: int64(len(keys))}
	for _, k := range keys {
		if r.PrevKv {
			old, _ := v.At(k, v.Rev)
			resp.PrevKvs = append(resp.PrevKvs, old.Kv(k))
		}
		w.remove(k)
	}
	resp.Header = &pb.ResponseHeader{Revision: w.revision()}
	return resp
}

func (w *Write) remove(key string) {
	w.events = append(w.events, w.Store.remove(w.Store.Rev+1, key))
	w.Lessor.move(key, 0)
}

// plan says which branch each transaction of a request takes, decided on the state before any of
// them runs.
type plan struct {
	succeeded bool
	ops       []*pb.RequestOp
	below     []plan // of the nested transactions among ops, in order
}

func (v View) plan(t *pb.TxnRequest) plan {
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

// verify refuses what would fail half-way, before anything is applied.
func (s *State) verify(v View, p plan) error {
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

func (v View) verifyRevision(rev int64) error {
	switch {
	case rev == 0:
		return nil
	case rev > v.Rev:
		return rpctypes.ErrGRPCFutureRev
	case rev < v.Compacted:
		return rpctypes.ErrGRPCCompacted
	}
	return nil
}

func (s *State) verifyPut(v View, r *pb.PutRequest) error {
	if r.Lease != 0 && s.Lessor.Leases[r.Lease] == nil {
		return rpctypes.ErrGRPCLeaseNotFound
	}
	if r.IgnoreValue || r.IgnoreLease {
		if _, ok := v.At(string(r.Key), v.Rev); !ok {
			return rpctypes.ErrGRPCKeyNotFound
		}
	}
	return nil
}

// run carries out the plan. Ranges see the changes that it made before them.
func (w *Write) run(p plan, reader func() View) (*pb.TxnResponse, error) {
	resp := &pb.TxnResponse{Succeeded: p.succeeded, Header: &pb.ResponseHeader{}}
	nested := 0
	for _, op := range p.ops {
		out := &pb.ResponseOp{}
		switch o := op.Request.(type) {
		case *pb.RequestOp_RequestRange:
			r, err := reader().Read(o.RequestRange)
			if err != nil {
				return nil, err
			}
			out.Response = &pb.ResponseOp_ResponseRange{ResponseRange: r}
		case *pb.RequestOp_RequestPut:
			out.Response = &pb.ResponseOp_ResponsePut{ResponsePut: w.Put(o.RequestPut)}
		case *pb.RequestOp_RequestDeleteRange:
			out.Response = &pb.ResponseOp_ResponseDeleteRange{ResponseDeleteRange: w.DeleteRange(o.RequestDeleteRange)}
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
