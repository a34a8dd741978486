package etcd

import (
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// State is what the members agree on. The cluster's mutex guards all of it.
type State struct {
	Store   *Store
	Lessor  *Lessor
	Auth    *Auth
	NoSpace bool
	Notify  func(events []*mvccpb.Event, why Cause) // notified of each commit, under the mutex
}

func (s *State) committed(events []*mvccpb.Event, why Cause) { s.Notify(events, why) }

// Current is the view of the last revision.
func (s *State) Current() View { return View{s.Store, s.Store.Rev} }

// ApplyPut puts a key.
func (s *State) ApplyPut(who *Identity, r *pb.PutRequest) (*pb.PutResponse, error) {
	if s.NoSpace {
		return nil, rpctypes.ErrGRPCNoSpace
	}
	if err := s.mayPut(who, r); err != nil {
		return nil, err
	}
	if err := s.verifyPut(s.Current(), r); err != nil {
		return nil, err
	}
	w := &Write{State: s}
	resp := w.Put(r)
	w.Done(ByClient)
	return resp, nil
}

// ApplyDelete deletes keys.
func (s *State) ApplyDelete(who *Identity, r *pb.DeleteRangeRequest) (*pb.DeleteRangeResponse, error) {
	if err := s.mayDelete(who, r); err != nil {
		return nil, err
	}
	w := &Write{State: s}
	resp := w.DeleteRange(r)
	w.Done(ByClient)
	return resp, nil
}

// ApplyTxn runs a transaction that writes.
func (s *State) ApplyTxn(who *Identity, r *pb.TxnRequest) (*pb.TxnResponse, error) {
	if s.NoSpace && stores(r) {
		return nil, rpctypes.ErrGRPCNoSpace
	}
	if err := s.mayTxn(who, r); err != nil {
		return nil, err
	}
	p := s.Current().plan(r)
	if err := s.verify(s.Current(), p); err != nil {
		return nil, err
	}
	w := &Write{State: s}
	resp, err := w.run(p, w.view)
	if err != nil {
		return nil, err
	}
	resp.Header.Revision = w.Done(ByClient)
	return resp, nil
}

// ReadTxn answers a transaction without writes as of v.
func (s *State) ReadTxn(who *Identity, v View, r *pb.TxnRequest) (*pb.TxnResponse, error) {
	if err := s.mayTxn(who, r); err != nil {
		return nil, err
	}
	p := v.plan(r)
	if err := s.verify(v, p); err != nil {
		return nil, err
	}
	resp, err := (&Write{State: s}).run(p, func() View { return v })
	if err != nil {
		return nil, err
	}
	resp.Header.Revision = v.Rev
	return resp, nil
}

// ApplyCompact forgets what is older than revision rev.
func (s *State) ApplyCompact(rev int64) (*pb.CompactionResponse, error) {
	if rev <= s.Store.Compacted {
		return nil, rpctypes.ErrGRPCCompacted
	}
	if rev > s.Store.Rev {
		return nil, rpctypes.ErrGRPCFutureRev
	}
	s.Store.Compact(rev)
	return &pb.CompactionResponse{Header: &pb.ResponseHeader{Revision: s.Store.Rev}}, nil
}

// ApplyGrant grants a lease.
func (s *State) ApplyGrant(now time.Time, r *pb.LeaseGrantRequest) (*pb.LeaseGrantResponse, error) {
	if s.NoSpace {
		return nil, rpctypes.ErrGRPCNoSpace
	}
	ls, err := s.Lessor.grant(now, r.ID, r.TTL)
	if err != nil {
		return nil, err
	}
	return &pb.LeaseGrantResponse{Header: &pb.ResponseHeader{Revision: s.Store.Rev}, ID: ls.ID, TTL: ls.TTL}, nil
}

// ApplyRevoke revokes a lease and deletes its keys.
func (s *State) ApplyRevoke(who *Identity, id int64) (*pb.LeaseRevokeResponse, error) {
	if err := s.MayWriteLease(who, id); err != nil {
		return nil, err
	}
	ls := s.Lessor.Leases[id]
	if ls == nil {
		return nil, rpctypes.ErrGRPCLeaseNotFound
	}
	s.EndLease(ls, ByRevoke)
	return &pb.LeaseRevokeResponse{Header: &pb.ResponseHeader{Revision: s.Store.Rev}}, nil
}

// EndLease deletes all keys of a lease in one revision, in order, and the lease.
func (s *State) EndLease(ls *lease, why Cause) {
	w := &Write{State: s}
	for _, k := range ls.SortedKeys() {
		w.remove(k)
	}
	s.Lessor.end(ls)
	w.Done(why)
}

// stores reports whether a transaction can take up room. Deletions never do.
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

// ReadOnly and Serializable sort transactions as the server does. One with a nested transaction
// counts as writing, and one without operations as neither.
func ReadOnly(r *pb.TxnRequest) bool {
	return everyRange(r, func(*pb.RangeRequest) bool { return true })
}

// Serializable reports whether a transaction is served from the member's own state.
func Serializable(r *pb.TxnRequest) bool {
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
