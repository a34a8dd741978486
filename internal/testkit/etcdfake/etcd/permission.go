package etcd

import (
	"cmp"
	"slices"

	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/pawl-locks/pawl/internal/etcdapi"
)

// permitted reports whether who may do typ on all of [key, end).
func (a *Auth) permitted(who *Identity, key, end string, typ authpb.Permission_Type) error {
	if !a.Enabled {
		return nil
	}
	if who == nil {
		return rpctypes.ErrGRPCUserEmpty
	}
	if who.revision < a.Revision {
		return rpctypes.ErrGRPCAuthOldRevision
	}
	u := a.Users[who.User]
	if u == nil {
		return rpctypes.ErrGRPCPermissionDenied
	}
	if u.Roles[Root] || covered(a.granted(u, typ), key, end) {
		return nil
	}
	return rpctypes.ErrGRPCPermissionDenied
}

// granted returns the ranges, sorted by their start, on which u may do typ.
func (a *Auth) granted(u *User, typ authpb.Permission_Type) []span {
	var out []span
	for role := range u.Roles {
		for _, p := range a.Roles[role] {
			if p.PermType == typ || p.PermType == etcdapi.PermissionReadWrite {
				out = append(out, span{string(p.Key), string(p.RangeEnd)})
			}
		}
	}
	slices.SortFunc(out, func(a, b span) int { return cmp.Compare(a.key, b.key) })
	return out
}

// covered reports whether the ranges, taken together, hold every key of [key, end).
func covered(ranges []span, key, end string) bool {
	if end == "" {
		return slices.ContainsFunc(ranges, func(s span) bool { return InRange(key, s.key, s.end) })
	}
	reached := key
	for _, s := range ranges {
		if s.key > reached {
			return false
		}
		switch {
		case s.end == FromKey:
			return true
		case s.end == "":
			if s.key == reached {
				reached = s.key + "\x00"
			}
		case s.end > reached:
			reached = s.end
		}
		if end != FromKey && reached >= end {
			return true
		}
	}
	return false
}

// MayRange refuses a read that who may not make.
func (s *State) MayRange(who *Identity, key, end []byte) error {
	return s.Auth.permitted(who, string(key), string(end), etcdapi.PermissionRead)
}

func (s *State) mayPut(who *Identity, r *pb.PutRequest) error {
	if err := s.Auth.permitted(who, string(r.Key), "", etcdapi.PermissionWrite); err != nil {
		return err
	}
	if err := s.MayWriteLease(who, r.Lease); err != nil {
		return err
	}
	if r.PrevKv {
		return s.MayRange(who, r.Key, nil)
	}
	return nil
}

func (s *State) mayDelete(who *Identity, r *pb.DeleteRangeRequest) error {
	if err := s.Auth.permitted(who, string(r.Key), string(r.RangeEnd), etcdapi.PermissionWrite); err != nil {
		return err
	}
	if r.PrevKv {
		return s.MayRange(who, r.Key, r.RangeEnd)
	}
	return nil
}

// mayTxn checks both branches, whichever runs.
func (s *State) mayTxn(who *Identity, r *pb.TxnRequest) error {
	for _, c := range r.Compare {
		if err := s.MayRange(who, c.Key, c.RangeEnd); err != nil {
			return err
		}
	}
	for _, branch := range [][]*pb.RequestOp{r.Success, r.Failure} {
		for _, op := range branch {
			if err := s.mayOp(who, op); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *State) mayOp(who *Identity, op *pb.RequestOp) error {
	switch o := op.Request.(type) {
	case *pb.RequestOp_RequestRange:
		return s.MayRange(who, o.RequestRange.Key, o.RequestRange.RangeEnd)
	case *pb.RequestOp_RequestPut:
		return s.mayPut(who, o.RequestPut)
	case *pb.RequestOp_RequestDeleteRange:
		return s.mayDelete(who, o.RequestDeleteRange)
	case *pb.RequestOp_RequestTxn:
		return s.mayTxn(who, o.RequestTxn)
	}
	return nil
}

// MayWriteLease requires write permission on every key of the lease. A put on it, its renewal and
// its revocation all need that.
func (s *State) MayWriteLease(who *Identity, id int64) error {
	ls := s.Lessor.Leases[id]
	if ls == nil || s.Auth.Admin(who) == nil {
		return nil
	}
	for _, k := range ls.SortedKeys() {
		if err := s.Auth.permitted(who, k, "", etcdapi.PermissionWrite); err != nil {
			return err
		}
	}
	return nil
}
