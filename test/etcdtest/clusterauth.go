package etcdtest

import (
	"context"
	"errors"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// login is the user as which this package connects to a cluster with authentication.
type login struct{ password string }

// AddUser adds a user, with a role of the same name that has that access. If password is "", the
// user has none. It must be called while authentication is off.
func (c *Cluster) AddUser(t testing.TB, name, password string, access ...Access) {
	t.Helper()
	addUser(t, c.Leader(t).conn, name, password, access...)
}

// EnableAuth adds the user root with that password, and makes the cluster require authentication.
// After DisableAuth, it does so again with the existing users and the existing password.
func (c *Cluster) EnableAuth(t testing.TB, password string) {
	t.Helper()
	known := false
	c.operate(t, "look for the user root", func(ctx context.Context, m *Member) error {
		_, err := pb.NewAuthClient(m.conn).UserGet(ctx, &pb.AuthUserGetRequest{Name: "root"})
		known = err == nil
		if errors.Is(rpctypes.Error(err), rpctypes.ErrUserNotFound) {
			return nil
		}
		return err
	})
	if !known {
		c.AddUser(t, "root", password)
	}
	c.operate(t, "enable authentication", func(ctx context.Context, m *Member) error {
		_, err := pb.NewAuthClient(m.conn).AuthEnable(ctx, &pb.AuthEnableRequest{})
		return err
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.login = &login{password}
}

// DisableAuth makes the cluster require no authentication. Every token that it has issued becomes
// invalid.
func (c *Cluster) DisableAuth(t testing.TB) {
	t.Helper()
	c.operate(t, "disable authentication", func(ctx context.Context, m *Member) error {
		_, err := pb.NewAuthClient(m.conn).AuthDisable(ctx, &pb.AuthDisableRequest{})
		return err
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.login = nil
}

// ExpireTokens invalidates every token that was issued, in use or not, by turning authentication
// off for a moment. Tokens that are not used also expire, after Options.TokenTTL.
func (c *Cluster) ExpireTokens(t testing.TB) {
	t.Helper()
	c.mu.Lock()
	l := c.login
	c.mu.Unlock()
	if l == nil {
		t.Fatalf("etcdtest: expire tokens: authentication is off")
	}
	c.DisableAuth(t)
	c.EnableAuth(t, l.password)
}

// authenticated returns ctx with one of root's tokens, from that member, if authentication is
// on.
func (c *Cluster) authenticated(ctx context.Context, m *Member) (context.Context, error) {
	c.mu.Lock()
	l := c.login
	c.mu.Unlock()
	if l == nil {
		return ctx, nil
	}
	r, err := pb.NewAuthClient(m.conn).Authenticate(ctx, &pb.AuthenticateRequest{Name: "root", Password: l.password})
	if status.Code(err) == codes.FailedPrecondition {
		return ctx, nil // not enabled at this moment
	}
	if err != nil {
		return nil, err
	}
	return metadata.AppendToOutgoingContext(ctx, "token", r.Token), nil
}
