package grpcfence

import (
	"context"
	"errors"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/fencing/internal/wire"
)

// UnaryServerInterceptor has each call's token admitted by g and puts it in the call's context. With a nil g it refuses no token as stale, only calls
// without one or with a garbled one, for services whose storage refuses; so do services of several replicas, since each gate knows only
// what came by it.
func UnaryServerInterceptor(g *fencing.Gate) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		resource, t, err := incoming(ctx)
		if err == nil {
			err = admit(g, resource, t)
		}
		if err != nil {
			return nil, err
		}
		return handle(fencing.NewContext(ctx, resource, t), req)
	}
}

// StreamServerInterceptor is the same for streams: the token of the call is admitted when the stream is opened, and again after each message that is received, so that
// the messages of a holder that has become stale are refused. RecvMsg returns the refusal; the handler returns it in turn.
func StreamServerInterceptor(g *fencing.Gate) grpc.StreamServerInterceptor {
	return func(srv any, s grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
		resource, t, err := incoming(s.Context())
		if err == nil {
			err = admit(g, resource, t)
		}
		if err != nil {
			return err
		}
		return handle(srv, &serverStream{s, fencing.NewContext(s.Context(), resource, t), g, resource, t})
	}
}

type serverStream struct {
	grpc.ServerStream
	ctx      context.Context
	gate     *fencing.Gate
	resource string
	token    fencing.Token
}

func (s *serverStream) Context() context.Context { return s.ctx }

func (s *serverStream) RecvMsg(m any) error {
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	return admit(s.gate, s.resource, s.token)
}

func incoming(ctx context.Context) (resource string, t fencing.Token, err error) {
	switch values := metadata.ValueFromIncomingContext(ctx, Key); len(values) {
	case 0:
		return "", 0, errNone
	case 1:
		if resource, t, err = wire.Parse(values[0]); err != nil {
			return "", 0, garbled(Key + " is " + err.Error())
		}
		return resource, t, nil
	default:
		return "", 0, garbled("the call has more than one " + Key)
	}
}

func admit(g *fencing.Gate, resource string, t fencing.Token) error {
	if g == nil {
		return nil
	}
	err := g.Admit(resource, t)
	var stale *fencing.StaleError
	if errors.As(err, &stale) {
		return Status(stale)
	}
	return err
}
