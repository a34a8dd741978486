package etcdfake

import (
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// state is what the members agree on. The cluster's mutex guards all of it.
type state struct {
	store   *store
	lessor  *lessor
	auth    *auth
	noSpace bool
	notify  func(events []*mvccpb.Event, why Cause) // told of each commit, under the mutex
}

func (s *state) committed(events []*mvccpb.Event, why Cause) { s.notify(events, why) }

func (s *state) current() view { return view{s.store, s.store.rev} }

func (s *state) applyPut(who *identity, r *pb.PutRequest) (*pb.PutResponse, error) {
	if s.noSpace {
		return nil, rpctypes.ErrGRPCNoSpace
	}
	if err := s.mayPut(who, r); err != nil {
		return nil, err
	}
	if err := s.verifyPut(s.current(), r); err != nil {
		return nil, err
	}
	w := &write{state: s}
	resp := w.put(r)
	w.done(ByClient)
	return resp, nil
}

func (s *state) applyDelete(who *identity, r *pb.DeleteRangeRequest) (*pb.DeleteRangeResponse, error) {
	if err := s.mayDelete(who, r); err != nil {
		return nil, err
	}
	w := &write{state: s}
	resp := w.deleteRange(r)
	w.done(ByClient)
	return resp, nil
}

func (s *state) applyTxn(who *identity, r *pb.TxnRequest) (*pb.TxnResponse, error) {
	if s.noSpace && stores(r) {
		return nil, rpctypes.ErrGRPCNoSpace
	}
	if err := s.mayTxn(who, r); err != nil {
		return nil, err
	}
	p := s.current().plan(r)
	if err := s.verify(s.current(), p); err != nil {
		return nil, err
	}
	w := &write{state: s}
	resp, err := w.run(p, w.view)
	if err != nil {
		return nil, err
	}
	resp.Header.Revision = w.done(ByClient)
	return resp, nil
}

// readTxn answers a transaction without writes as of v.
func (s *state) readTxn(who *identity, v view, r *pb.TxnRequest) (*pb.TxnResponse, error) {
	if err := s.mayTxn(who, r); err != nil {
		return nil, err
	}
	p := v.plan(r)
	if err := s.verify(v, p); err != nil {
		return nil, err
	}
	resp, err := (&write{state: s}).run(p, func() view { return v })
	if err != nil {
		return nil, err
	}
	resp.Header.Revision = v.rev
	return resp, nil
}

func (s *state) applyCompact(rev int64) (*pb.CompactionResponse, error) {
	if rev <= s.store.compacted {
		return nil, rpctypes.ErrGRPCCompacted
	}
	if rev > s.store.rev {
		return nil, rpctypes.ErrGRPCFutureRev
	}
	s.store.compact(rev)
	return &pb.CompactionResponse{Header: &pb.ResponseHeader{Revision: s.store.rev}}, nil
}

func (s *state) applyGrant(now time.Time, r *pb.LeaseGrantRequest) (*pb.LeaseGrantResponse, error) {
	if s.noSpace {
		return nil, rpctypes.ErrGRPCNoSpace
	}
	ls, err := s.lessor.grant(now, r.ID, r.TTL)
	if err != nil {
		return nil, err
	}
	return &pb.LeaseGrantResponse{Header: &pb.ResponseHeader{Revision: s.store.rev}, ID: ls.id, TTL: ls.ttl}, nil
}

func (s *state) applyRevoke(who *identity, id int64) (*pb.LeaseRevokeResponse, error) {
	if err := s.mayWriteLease(who, id); err != nil {
		return nil, err
	}
	ls := s.lessor.leases[id]
	if ls == nil {
		return nil, rpctypes.ErrGRPCLeaseNotFound
	}
	s.endLease(ls, ByRevoke)
	return &pb.LeaseRevokeResponse{Header: &pb.ResponseHeader{Revision: s.store.rev}}, nil
}

// endLease deletes all keys of a lease in one revision, in order, and the lease.
func (s *state) endLease(ls *lease, why Cause) {
	w := &write{state: s}
	for _, k := range ls.sortedKeys() {
		w.remove(k)
	}
	s.lessor.end(ls)
	w.done(why)
}

// stores tells whether a transaction can take up room; deletions never do.
func stores(r *pb.TxnRequest) bool {
	for _, branch := range [][]*pb.RequestOp{r.Success, r.Failure} {
		for _, op := range branch {
			if op.GetRequestPut() != nil || op.GetRequestTxn() != nil && stores(op.GetRequestTxn()) {
				return true
			}
		}
	}
	return false
}

// readOnly and serializable sort transactions as the server does: one with a
// nested transaction counts as writing, one without operations as neither.
func readOnly(r *pb.TxnRequest) bool {
	return everyRange(r, func(*pb.RangeRequest) bool { return true })
}

func serializable(r *pb.TxnRequest) bool {
	return everyRange(r, (*pb.RangeRequest).GetSerializable)
}

func everyRange(r *pb.TxnRequest, ok func(*pb.RangeRequest) bool) bool {
	for _, branch := range [][]*pb.RequestOp{r.Success, r.Failure} {
		for _, op := range branch {
			if rr := op.GetRequestRange(); rr == nil || !ok(rr) {
				return false
			}
		}
	}
	return true
}
