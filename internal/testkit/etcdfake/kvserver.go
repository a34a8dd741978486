package etcdfake

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/pawl-locks/pawl/internal/etcdapi"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake/etcd"
)

// maxRequest is the smallest size that the server refuses to agree on.
const maxRequest = 1.5 * (1 << 20)

type kvServer struct {
	pb.UnimplementedKVServer
	m *Member
}

// agreed runs f on the state once the member is in agreement with its peers, with the identity of
// the request's sender.
func agreed[T any](ctx context.Context, m *Member, msg etcdapi.Message, f func(*etcd.State, *etcd.Identity) (T, error)) (T, error) {
	var none T
	m.c.mu.Lock()
	who, err := m.who(ctx)
	m.c.mu.Unlock()
	if err != nil {
		return none, err
	}
	if etcdapi.Size(msg) > maxRequest {
		return none, rpctypes.ErrGRPCRequestTooLarge
	}
	if err := m.propose(ctx, rpctypes.ErrGRPCTimeout); err != nil {
		return none, err
	}
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	return f(m.c.state, who)
}

// reading runs f on what the member sees, after agreement unless serializable is set.
func reading[T any](ctx context.Context, m *Member, serializable bool, f func(*etcd.State, *etcd.Identity) (T, error)) (T, error) {
	var none T
	if !serializable {
		if err := m.agree(ctx, rpctypes.ErrGRPCTimeout); err != nil {
			return none, err
		}
	}
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	who, err := m.who(ctx)
	if err != nil {
		return none, err
	}
	return f(m.c.state, who)
}

func (s *kvServer) Range(ctx context.Context, r *pb.RangeRequest) (*pb.RangeResponse, error) {
	if err := etcd.CheckRange(r); err != nil {
		return nil, err
	}
	return reading(ctx, s.m, r.Serializable, func(st *etcd.State, who *etcd.Identity) (*pb.RangeResponse, error) {
		if err := st.MayRange(who, r.Key, r.RangeEnd); err != nil {
			return nil, err
		}
		resp, err := s.m.view().Read(r)
		if err != nil {
			return nil, err
		}
		s.m.fill(resp.Header)
		return resp, nil
	})
}

func (s *kvServer) Put(ctx context.Context, r *pb.PutRequest) (*pb.PutResponse, error) {
	if err := etcd.CheckPut(r); err != nil {
		return nil, err
	}
	return agreed(ctx, s.m, r, func(st *etcd.State, who *etcd.Identity) (*pb.PutResponse, error) {
		resp, err := st.ApplyPut(who, r)
		if err != nil {
			return nil, err
		}
		s.m.fill(resp.Header)
		return resp, nil
	})
}

func (s *kvServer) DeleteRange(ctx context.Context, r *pb.DeleteRangeRequest) (*pb.DeleteRangeResponse, error) {
	if err := etcd.CheckDelete(r); err != nil {
		return nil, err
	}
	return agreed(ctx, s.m, r, func(st *etcd.State, who *etcd.Identity) (*pb.DeleteRangeResponse, error) {
		resp, err := st.ApplyDelete(who, r)
		if err != nil {
			return nil, err
		}
		s.m.fill(resp.Header)
		return resp, nil
	})
}

func (s *kvServer) Txn(ctx context.Context, r *pb.TxnRequest) (*pb.TxnResponse, error) {
	if err := etcd.CheckTxn(r, s.m.c.opts.MaxTxnOps); err != nil {
		return nil, err
	}
	for _, branch := range [][]*pb.RequestOp{r.Success, r.Failure} {
		if err := etcd.CheckOverlap(branch); err != nil {
			return nil, err
		}
	}
	answer := func(resp *pb.TxnResponse, err error) (*pb.TxnResponse, error) {
		if err != nil {
			return nil, err
		}
		s.m.fill(resp.Header)
		return resp, nil
	}
	if etcd.ReadOnly(r) {
		return reading(ctx, s.m, etcd.Serializable(r), func(st *etcd.State, who *etcd.Identity) (*pb.TxnResponse, error) {
			return answer(st.ReadTxn(who, s.m.view(), r))
		})
	}
	return agreed(ctx, s.m, r, func(st *etcd.State, who *etcd.Identity) (*pb.TxnResponse, error) {
		return answer(st.ApplyTxn(who, r))
	})
}

func (s *kvServer) Compact(ctx context.Context, r *pb.CompactionRequest) (*pb.CompactionResponse, error) {
	return agreed(ctx, s.m, r, func(st *etcd.State, who *etcd.Identity) (*pb.CompactionResponse, error) {
		if err := st.Auth.Admin(who); err != nil {
			return nil, err
		}
		resp, err := st.ApplyCompact(r.Revision)
		if err != nil {
			return nil, err
		}
		s.m.fill(resp.Header)
		return resp, nil
	})
}
