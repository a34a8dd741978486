package grpcfence_test

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/fencing/grpcfence"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

type text = wrapperspb.StringValue

// A service keeps values in memory. Its handlers admit once more under the mutex of the values, as
// the package comment says.
type service struct {
	mu     sync.Mutex
	gate   fencing.Gate
	values map[string]string
	lose   atomic.Bool // the next answer
}

func (s *service) do(ctx context.Context, write *string) (string, error) {
	resource, _, ok := fencing.FromContext(ctx)
	if !ok {
		resource, _, _ = fencing.FromSharedContext(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var stale *fencing.StaleError
	if errors.As(s.gate.AdmitContext(ctx), &stale) {
		return "", grpcfence.Status(stale)
	}
	if write != nil {
		s.values[resource] = *write
	}
	return s.values[resource], nil
}

func unary(s *service, ctx context.Context, decode func(any) error, next grpc.UnaryServerInterceptor, write bool) (any, error) {
	var in text
	if err := decode(&in); err != nil {
		return nil, err
	}
	handle := func(ctx context.Context, req any) (any, error) {
		var value *string
		if write {
			value = &req.(*text).Value
		}
		got, err := s.do(ctx, value)
		if err == nil && s.lose.Swap(false) {
			err = status.Error(codes.Unavailable, "the answer was lost")
		}
		return wrapperspb.String(got), err
	}
	if next == nil {
		return handle(ctx, &in)
	}
	return next(ctx, &in, &grpc.UnaryServerInfo{Server: s}, handle)
}

// writes is a stream of values to write, each answered.
func writes(srv any, stream grpc.ServerStream) error {
	for {
		var in text
		switch err := stream.RecvMsg(&in); {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
		got, err := srv.(*service).do(stream.Context(), &in.Value)
		if err != nil {
			return err
		}
		if err := stream.SendMsg(wrapperspb.String(got)); err != nil {
			return err
		}
	}
}

var description = grpc.ServiceDesc{
	ServiceName: "Values",
	HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{
		{MethodName: "Read", Handler: func(srv any, ctx context.Context, decode func(any) error, next grpc.UnaryServerInterceptor) (any, error) {
			return unary(srv.(*service), ctx, decode, next, false)
		}},
		{MethodName: "Write", Handler: func(srv any, ctx context.Context, decode func(any) error, next grpc.UnaryServerInterceptor) (any, error) {
			return unary(srv.(*service), ctx, decode, next, true)
		}},
	},
	Streams: []grpc.StreamDesc{{StreamName: "Writes", Handler: writes, ServerStreams: true, ClientStreams: true}},
}

// start serves s and returns a connection with the interceptors, and one without.
func start(t testing.TB, s *service, gate *fencing.Gate) (fenced, bare *grpc.ClientConn) {
	t.Helper()
	return serve(t, s, grpc.UnaryInterceptor(grpcfence.UnaryServerInterceptor(gate)), grpc.StreamInterceptor(grpcfence.StreamServerInterceptor(gate)))
}

func serve(t testing.TB, s *service, opts ...grpc.ServerOption) (fenced, bare *grpc.ClientConn) {
	t.Helper()
	lis := bufconn.Listen(1 << 20)
	server := grpc.NewServer(opts...)
	server.RegisterService(&description, s)
	served := make(chan struct{})
	go func() { // ends when the server stops
		defer close(served)
		_ = server.Serve(lis)
	}()
	t.Cleanup(func() { server.Stop(); <-served })
	dial := func(opts ...grpc.DialOption) *grpc.ClientConn {
		conn, err := grpc.NewClient("passthrough:///bufconn", append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) }))...)
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	return dial(grpc.WithUnaryInterceptor(grpcfence.UnaryClientInterceptor()), grpc.WithStreamInterceptor(grpcfence.StreamClientInterceptor())), dial()
}

func newService() *service { return &service{values: map[string]string{}} }

func call(ctx context.Context, conn *grpc.ClientConn, method, value string) (string, error) {
	var out text
	err := conn.Invoke(ctx, "/Values/"+method, wrapperspb.String(value), &out)
	return out.GetValue(), err
}
