package etcdfake

import (
	"context"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/status"

	"github.com/pawl-locks/pawl/internal/testkit/etcdfake/etcd"
)

type maintenanceServer struct {
	pb.UnimplementedMaintenanceServer
	m *Member
}

func (s *maintenanceServer) Status(ctx context.Context, _ *pb.StatusRequest) (*pb.StatusResponse, error) {
	return reading(ctx, s.m, true, func(st *etcd.State, who *etcd.Identity) (*pb.StatusResponse, error) {
		if err := st.Auth.Required(who); err != nil {
			return nil, err
		}
		m := s.m
		resp := &pb.StatusResponse{
			Header: m.fill(&pb.ResponseHeader{}), Version: m.version,
			Leader: m.leaderID(time.Now()), IsLearner: m.learner,
			RaftIndex: uint64(st.Store.Rev) + 3, RaftAppliedIndex: uint64(st.Store.Rev) + 3,
			DbSize: 20480, DbSizeInUse: 16384,
		}
		resp.RaftTerm = resp.Header.RaftTerm
		if resp.Leader == 0 {
			resp.Errors = append(resp.Errors, status.Convert(rpctypes.ErrGRPCNoLeader).Message())
		}
		if st.NoSpace {
			resp.Errors = append(resp.Errors, (&pb.AlarmMember{MemberID: m.id, Alarm: pb.AlarmType_NOSPACE}).String())
		}
		return resp, nil
	})
}

// leaderID is the member that this one takes for the leader, or 0. The caller holds c.mu.
func (m *Member) leaderID(now time.Time) uint64 {
	i := m.c.leader
	if m.frozen != nil && m.contact != inTouch {
		i = m.frozen.leader
	}
	if i < 0 || m.knowsNoLeader(now) {
		return 0
	}
	return m.c.members[i].id
}

type clusterServer struct {
	pb.UnimplementedClusterServer
	m *Member
}

func (s *clusterServer) MemberList(ctx context.Context, r *pb.MemberListRequest) (*pb.MemberListResponse, error) {
	return reading(ctx, s.m, !r.Linearizable, func(st *etcd.State, who *etcd.Identity) (*pb.MemberListResponse, error) {
		if err := st.Auth.Required(who); err != nil {
			return nil, err
		}
		resp := &pb.MemberListResponse{Header: s.m.fill(&pb.ResponseHeader{})}
		resp.Header.Revision = 0 // the server leaves it out here
		for _, m := range s.m.c.members {
			if m.left {
				continue
			}
			resp.Members = append(resp.Members, &pb.Member{
				ID: m.id, Name: m.endpoint, IsLearner: m.learner,
				ClientURLs: []string{"http://" + m.endpoint},
				PeerURLs:   []string{"http://" + m.endpoint + "0"},
			})
		}
		return resp, nil
	})
}
