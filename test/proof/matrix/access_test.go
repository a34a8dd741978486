package matrix

import (
	"context"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawl-locks/pawl/test/etcdtest"
)

// access is how the members are reached: the third dimension of the table.
type access struct {
	name    string
	secured bool // with a password, over TLS, through an interceptor that repeats requests
}

var accesses = []access{{name: "plain"}, {name: "secured", secured: true}}

// of is f with what the access asks of it.
func (a access) of(f fault) fault {
	if a.secured {
		f.auth, f.options.TLS, f.resends = true, true, true
	}
	return f
}

// cluster starts one for f.
func (a access) cluster(t *testing.T, f fault) *etcdtest.Cluster {
	f = a.of(f)
	c := etcdtest.StartClusterWith(t, 3, f.options)
	if f.auth {
		c.EnableAuth(t, password)
	}
	return c
}

// resend is an interceptor as many programs have one: it repeats once what a member or
// the network could not do.
func resend(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	err := invoke(ctx, method, req, reply, cc, opts...)
	if status.Code(err) == codes.Unavailable && ctx.Err() == nil {
		return invoke(ctx, method, req, reply, cc, opts...)
	}
	return err
}
