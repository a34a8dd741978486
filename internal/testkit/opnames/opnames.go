// Package opnames lets tests recognise a request by its operation's name, not by its shape.
package opnames

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
)

// DialOption is a dial option that makes each request name its operations, which are the Ops of an
// [etcdfake.Request]. Only tests dial with it.
func DialOption() grpc.DialOption { return grpc.WithChainUnaryInterceptor(name) }

func name(ctx context.Context, method string, req, answer any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	for _, op := range cluster.Ops(ctx) {
		ctx = metadata.AppendToOutgoingContext(ctx, etcdfake.OpHeader, op)
	}
	return invoke(ctx, method, req, answer, conn, opts...)
}
