package etcdtest

import (
	"testing"

	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
)

// Access is a permission on the keys with Prefix.
type Access struct {
	Prefix string
	Read   bool
	Write  bool
}

// EnableAuth adds the user root with that password, and makes the server require authentication.
func (s *Server) EnableAuth(t testing.TB, password string) {
	t.Helper()
	s.AddUser(t, "root", password)
	auth := pb.NewAuthClient(s.Conn(t))
	if _, err := auth.AuthEnable(within(t), &pb.AuthEnableRequest{}); err != nil {
		t.Fatalf("etcdtest: enable authentication: %v", err)
	}
}

// AddUser adds a user, with a role of the same name that has that access. If password is "", the
// user has none (for users named by their certificate). It must be called before EnableAuth.
// Afterwards, use the server's Auth service.
func (s *Server) AddUser(t testing.TB, name, password string, access ...Access) {
	t.Helper()
	addUser(t, s.Conn(t), name, password, access...)
}

func addUser(t testing.TB, conn *grpc.ClientConn, name, password string, access ...Access) {
	t.Helper()
	auth, ctx := pb.NewAuthClient(conn), within(t)
	fail := func(what string, err error) {
		if err != nil {
			t.Fatalf("etcdtest: add user %q: %s: %v", name, what, err)
		}
	}
	_, err := auth.RoleAdd(ctx, &pb.AuthRoleAddRequest{Name: name})
	fail("add role", err)
	for _, a := range access {
		_, err = auth.RoleGrantPermission(ctx, &pb.AuthRoleGrantPermissionRequest{Name: name, Perm: a.permission()})
		fail("grant permission", err)
	}
	_, err = auth.UserAdd(ctx, &pb.AuthUserAddRequest{
		Name: name, Password: password, Options: &authpb.UserAddOptions{NoPassword: password == ""}})
	fail("add", err)
	_, err = auth.UserGrantRole(ctx, &pb.AuthUserGrantRoleRequest{User: name, Role: name})
	fail("grant role", err)
}

func (a Access) permission() *authpb.Permission {
	p := &authpb.Permission{Key: []byte(a.Prefix), RangeEnd: prefixEnd(a.Prefix)}
	if a.Prefix == "" {
		p.Key = []byte{0}
	}
	switch {
	case a.Read && a.Write:
		p.PermType = authpb.Permission_READWRITE
	case a.Write:
		p.PermType = authpb.Permission_WRITE
	default:
		p.PermType = authpb.Permission_READ
	}
	return p
}

// prefixEnd is the end of the range of all keys with that prefix.
func prefixEnd(prefix string) []byte {
	end := []byte(prefix)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i] < 0xff {
			end[i]++
			return end[:i+1]
		}
	}
	return []byte{0}
}

// Token authenticates a user and returns what goes into the "token" metadata
// of requests.
func (s *Server) Token(t testing.TB, name, password string) string {
	t.Helper()
	r, err := pb.NewAuthClient(s.Conn(t)).Authenticate(within(t), &pb.AuthenticateRequest{Name: name, Password: password})
	if err != nil {
		t.Fatalf("etcdtest: authenticate %q: %v", name, err)
	}
	return r.Token
}
