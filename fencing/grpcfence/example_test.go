package grpcfence_test

import (
	"context"
	"errors"
	"fmt"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/test/bufconn"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/fencing/grpcfence"
)

// Any service can stand behind the interceptors; here it is the one for health checks.
func Example() {
	lis := bufconn.Listen(1 << 16)
	var gate fencing.Gate
	server := grpc.NewServer(
		grpc.UnaryInterceptor(grpcfence.UnaryServerInterceptor(&gate)),
		grpc.StreamInterceptor(grpcfence.StreamServerInterceptor(&gate)),
	)
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	served := make(chan error, 1)
	go func() { served <- server.Serve(lis) }()
	defer func() { server.Stop(); <-served }()

	conn, err := grpc.NewClient("passthrough:///bufconn",
		grpc.WithUnaryInterceptor(grpcfence.UnaryClientInterceptor()),
		grpc.WithStreamInterceptor(grpcfence.StreamClientInterceptor()),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) }),
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	client := grpc_health_v1.NewHealthClient(conn)
	call := func(ctx context.Context) {
		resp, err := client.Check(ctx, &grpc_health_v1.HealthCheckRequest{})
		var stale *fencing.StaleError
		if errors.As(err, &stale) {
			fmt.Println("refused:", stale)
			return
		}
		fmt.Println(resp.GetStatus(), err)
	}

	// Held.Context and Mutex.Do of package lock give contexts like these.
	first := fencing.NewContext(context.Background(), "jobs/42", 41)
	second := fencing.NewContext(context.Background(), "jobs/42", 57)
	call(first)
	call(second)
	call(first)
	// Output:
	// SERVING <nil>
	// SERVING <nil>
	// refused: fencing: stale token 41 for "jobs/42": 57 was seen
}
