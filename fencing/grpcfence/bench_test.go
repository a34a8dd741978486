package grpcfence_test

import (
	"context"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/fencing/grpcfence"
	"github.com/pawl-locks/pawl/internal/testkit/pairbench"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

// The cost of the interceptors of both ends, without the call between them.
func BenchmarkInterceptors(b *testing.B) {
	var gate fencing.Gate
	client, server := grpcfence.UnaryClientInterceptor(), grpcfence.UnaryServerInterceptor(&gate)
	ctx := fencing.NewContext(b.Context(), "jobs/42", 57)
	handle := func(context.Context, any) (any, error) { return nil, nil }
	b.ReportAllocs()
	for b.Loop() {
		err := client(ctx, "/Values/Write", nil, nil, nil, func(ctx context.Context, _ string, _, _ any, _ *grpc.ClientConn, _ ...grpc.CallOption) error {
			_, err := server(arrived(ctx), nil, nil, handle)
			return err
		})
		require.NoError(b, err)
	}
}

// The cost that they add to a call over an in-memory connection.
func BenchmarkCall(b *testing.B) {
	s := newService()
	_, bare := serve(b, s)
	fenced, _ := start(b, s, &s.gate)
	ctx := fencing.NewContext(b.Context(), job, 57)
	on := func(conn *grpc.ClientConn) func() error {
		return func() error { return conn.Invoke(ctx, "/Values/Write", wrapperspb.String("x"), new(text)) }
	}
	pairbench.Run(b, pairbench.Way{Name: "bare", Do: on(bare)}, pairbench.Way{Name: "fenced", Do: on(fenced)})
}
