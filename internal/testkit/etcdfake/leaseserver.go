package etcdfake

import (
	"context"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/internal/testkit/etcdfake/etcd"
)

type leaseServer struct {
	pb.UnimplementedLeaseServer
	m *Member
}

func (s *leaseServer) LeaseGrant(ctx context.Context, r *pb.LeaseGrantRequest) (*pb.LeaseGrantResponse, error) {
	return agreed(ctx, s.m, r, func(st *etcd.State, who *etcd.Identity) (*pb.LeaseGrantResponse, error) {
		if err := st.Auth.Required(who); err != nil {
			return nil, err
		}
		if r.ID == 0 {
			s.m.c.serial++
			r.ID = s.m.c.serial
		}
		resp, err := st.ApplyGrant(time.Now(), r)
		if err != nil {
			return nil, err
		}
		s.m.c.hurry()
		s.m.fill(resp.Header)
		return resp, nil
	})
}

func (s *leaseServer) LeaseRevoke(ctx context.Context, r *pb.LeaseRevokeRequest) (*pb.LeaseRevokeResponse, error) {
	return agreed(ctx, s.m, r, func(st *etcd.State, who *etcd.Identity) (*pb.LeaseRevokeResponse, error) {
		if err := st.Auth.Required(who); err != nil {
			return nil, err
		}
		resp, err := st.ApplyRevoke(who, r.ID)
		if err != nil {
			return nil, err
		}
		s.m.fill(resp.Header)
		return resp, nil
	})
}

func (s *leaseServer) LeaseTimeToLive(ctx context.Context, r *pb.LeaseTimeToLiveRequest) (*pb.LeaseTimeToLiveResponse, error) {
	return reading(ctx, s.m, false, func(st *etcd.State, who *etcd.Identity) (*pb.LeaseTimeToLiveResponse, error) {
		if err := st.Auth.Required(who); err != nil {
			return nil, err
		}
		resp := &pb.LeaseTimeToLiveResponse{Header: s.m.fill(&pb.ResponseHeader{}), ID: r.ID, TTL: -1}
		ls := st.Lessor.Leases[r.ID]
		if ls == nil {
			return resp, nil
		}
		resp.TTL, resp.GrantedTTL = int64(time.Until(ls.Expires).Seconds()), ls.TTL
		if r.Keys {
			for _, k := range ls.SortedKeys() {
				if err := st.MayRange(who, []byte(k), nil); err != nil {
					return nil, err
				}
				resp.Keys = append(resp.Keys, []byte(k))
			}
		}
		return resp, nil
	})
}

func (s *leaseServer) LeaseLeases(ctx context.Context, _ *pb.LeaseLeasesRequest) (*pb.LeaseLeasesResponse, error) {
	return reading(ctx, s.m, true, func(st *etcd.State, who *etcd.Identity) (*pb.LeaseLeasesResponse, error) {
		if err := st.Auth.Required(who); err != nil {
			return nil, err
		}
		resp := &pb.LeaseLeasesResponse{Header: s.m.fill(&pb.ResponseHeader{})}
		for _, ls := range st.Lessor.Sorted() {
			for _, k := range ls.SortedKeys() {
				if err := st.MayRange(who, []byte(k), nil); err != nil {
					return nil, err
				}
			}
			resp.Leases = append(resp.Leases, &pb.LeaseStatus{ID: ls.ID})
		}
		return resp, nil
	})
}
