package etcdfake

import (
	"context"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/pawl-locks/pawl/internal/etcdapi"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake/etcd"
)

type authServer struct {
	pb.UnimplementedAuthServer
	m *Member
}

func (s *authServer) Authenticate(ctx context.Context, r *pb.AuthenticateRequest) (*pb.AuthenticateResponse, error) {
	if err := s.m.propose(ctx, rpctypes.ErrGRPCTimeout); err != nil {
		return nil, err
	}
	s.m.c.mu.Lock()
	defer s.m.c.mu.Unlock()
	tok, err := s.m.c.state.Auth.Authenticate(time.Now(), r.Name, r.Password)
	if err != nil {
		return nil, err
	}
	return &pb.AuthenticateResponse{Header: s.header(), Token: tok}, nil
}

func (s *authServer) header() *pb.ResponseHeader { return s.m.fill(&pb.ResponseHeader{}) }

func (s *authServer) AuthStatus(ctx context.Context, r *pb.AuthStatusRequest) (*pb.AuthStatusResponse, error) {
	return agreed(ctx, s.m, r, func(st *etcd.State, _ *etcd.Identity) (*pb.AuthStatusResponse, error) {
		return &pb.AuthStatusResponse{Header: s.header(), Enabled: st.Auth.Enabled, AuthRevision: st.Auth.Revision}, nil
	})
}

// manage changes users and roles for an administrator.
func manage[T any](ctx context.Context, s *authServer, r etcdapi.Message, change func(*etcd.Auth) error, answer func(*pb.ResponseHeader) *T) (*T, error) {
	return agreed(ctx, s.m, r, func(st *etcd.State, who *etcd.Identity) (*T, error) {
		if err := st.Auth.Admin(who); err != nil {
			return nil, err
		}
		if err := change(st.Auth); err != nil {
			return nil, err
		}
		return answer(s.header()), nil
	})
}

func (s *authServer) AuthEnable(ctx context.Context, r *pb.AuthEnableRequest) (*pb.AuthEnableResponse, error) {
	return manage(ctx, s, r, (*etcd.Auth).Enable, func(h *pb.ResponseHeader) *pb.AuthEnableResponse {
		return &pb.AuthEnableResponse{Header: h}
	})
}

func (s *authServer) AuthDisable(ctx context.Context, r *pb.AuthDisableRequest) (*pb.AuthDisableResponse, error) {
	return manage(ctx, s, r, func(a *etcd.Auth) error { a.Disable(); return nil }, func(h *pb.ResponseHeader) *pb.AuthDisableResponse {
		return &pb.AuthDisableResponse{Header: h}
	})
}

func (s *authServer) UserAdd(ctx context.Context, r *pb.AuthUserAddRequest) (*pb.AuthUserAddResponse, error) {
	return manage(ctx, s, r, func(a *etcd.Auth) error { return a.AddUser(r) }, func(h *pb.ResponseHeader) *pb.AuthUserAddResponse {
		return &pb.AuthUserAddResponse{Header: h}
	})
}

func (s *authServer) UserGet(ctx context.Context, r *pb.AuthUserGetRequest) (*pb.AuthUserGetResponse, error) {
	return agreed(ctx, s.m, r, func(st *etcd.State, who *etcd.Identity) (*pb.AuthUserGetResponse, error) {
		if err := st.Auth.Admin(who); err != nil && (who == nil || who.User != r.Name) {
			return nil, err
		}
		u := st.Auth.Users[r.Name]
		if u == nil {
			return nil, rpctypes.ErrGRPCUserNotFound
		}
		return &pb.AuthUserGetResponse{Header: s.header(), Roles: u.RoleNames()}, nil
	})
}

func (s *authServer) UserDelete(ctx context.Context, r *pb.AuthUserDeleteRequest) (*pb.AuthUserDeleteResponse, error) {
	return manage(ctx, s, r, func(a *etcd.Auth) error { return a.DeleteUser(r.Name) }, func(h *pb.ResponseHeader) *pb.AuthUserDeleteResponse {
		return &pb.AuthUserDeleteResponse{Header: h}
	})
}

func (s *authServer) UserChangePassword(ctx context.Context, r *pb.AuthUserChangePasswordRequest) (*pb.AuthUserChangePasswordResponse, error) {
	return manage(ctx, s, r, func(a *etcd.Auth) error { return a.ChangePassword(r.Name, r.Password) }, func(h *pb.ResponseHeader) *pb.AuthUserChangePasswordResponse {
		return &pb.AuthUserChangePasswordResponse{Header: h}
	})
}

func (s *authServer) UserGrantRole(ctx context.Context, r *pb.AuthUserGrantRoleRequest) (*pb.AuthUserGrantRoleResponse, error) {
	return manage(ctx, s, r, func(a *etcd.Auth) error { return a.GrantRole(r.User, r.Role) }, func(h *pb.ResponseHeader) *pb.AuthUserGrantRoleResponse {
		return &pb.AuthUserGrantRoleResponse{Header: h}
	})
}

func (s *authServer) UserRevokeRole(ctx context.Context, r *pb.AuthUserRevokeRoleRequest) (*pb.AuthUserRevokeRoleResponse, error) {
	return manage(ctx, s, r, func(a *etcd.Auth) error { return a.RevokeRole(r.Name, r.Role) }, func(h *pb.ResponseHeader) *pb.AuthUserRevokeRoleResponse {
		return &pb.AuthUserRevokeRoleResponse{Header: h}
	})
}

func (s *authServer) RoleAdd(ctx context.Context, r *pb.AuthRoleAddRequest) (*pb.AuthRoleAddResponse, error) {
	return manage(ctx, s, r, func(a *etcd.Auth) error { return a.AddRole(r.Name) }, func(h *pb.ResponseHeader) *pb.AuthRoleAddResponse {
		return &pb.AuthRoleAddResponse{Header: h}
	})
}

func (s *authServer) RoleGrantPermission(ctx context.Context, r *pb.AuthRoleGrantPermissionRequest) (*pb.AuthRoleGrantPermissionResponse, error) {
	return manage(ctx, s, r, func(a *etcd.Auth) error { return a.GrantPermission(r.Name, r.Perm) }, func(h *pb.ResponseHeader) *pb.AuthRoleGrantPermissionResponse {
		return &pb.AuthRoleGrantPermissionResponse{Header: h}
	})
}

func (s *authServer) RoleRevokePermission(ctx context.Context, r *pb.AuthRoleRevokePermissionRequest) (*pb.AuthRoleRevokePermissionResponse, error) {
	return manage(ctx, s, r, func(a *etcd.Auth) error { return a.RevokePermission(r.Role, string(r.Key), string(r.RangeEnd)) }, func(h *pb.ResponseHeader) *pb.AuthRoleRevokePermissionResponse {
		return &pb.AuthRoleRevokePermissionResponse{Header: h}
	})
}
