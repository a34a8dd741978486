package grpcfence

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/fencing/internal/wire"
)

// Key is the metadata key that carries resource and token.
const Key = "fencing-token"

// UnaryClientInterceptor sends the token of the call's context, in place of any value that the outgoing
// metadata has under Key. Without a token the call is not made, and the error is a FailedPrecondition
// that matches fencing.ErrNoToken. The error for a stale token matches *fencing.StaleError.
func UnaryClientInterceptor() grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		ctx, err := outgoing(ctx)
		if err != nil {
			return err
		}
		return fromStatus(invoke(ctx, method, req, reply, cc, opts...))
	}
}

// StreamClientInterceptor does the same for streams. The token is sent once, when the stream is opened.
// RecvMsg returns the error for a stale one.
func StreamClientInterceptor() grpc.StreamClientInterceptor {
	return func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		ctx, err := outgoing(ctx)
		if err != nil {
			return nil, err
		}
		s, err := open(ctx, desc, cc, method, opts...)
		if err != nil {
			return nil, fromStatus(err)
		}
		return clientStream{s}, nil
	}
}

type clientStream struct{ grpc.ClientStream }

func (s clientStream) RecvMsg(m any) error { return fromStatus(s.ClientStream.RecvMsg(m)) }

func outgoing(ctx context.Context) (context.Context, error) {
	t, ok := wire.FromContext(ctx)
	if !ok {
		return nil, &refused{status.New(codes.FailedPrecondition, "grpcfence: "+fencing.ErrNoToken.Error()+" in the call's context"), fencing.ErrNoToken}
	}
	md, _ := metadata.FromOutgoingContext(ctx) // a copy
	if md == nil {
		md = metadata.MD{}
	}
	md.Set(Key, t.String())
	return metadata.NewOutgoingContext(ctx, md), nil
}
