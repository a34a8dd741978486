package grpcfence

import (
	"context"
	"errors"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/fencing/internal/wire"
)

// UnaryServerInterceptor has each call's token admitted by g and puts it in the call's context. If g is
// nil, it refuses only calls without a token or with a garbled one, and no token as stale. A nil g is
// for services whose storage refuses stale tokens, and for services of several replicas, since each gate
// knows only the calls that it has seen.
func UnaryServerInterceptor(g *fencing.Gate) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		t, err := incoming(ctx)
		if err == nil {
			err = admit(g, t)
		}
		if err != nil {
			return nil, err
		}
		return handle(t.NewContext(ctx), req)
	}
}

// StreamServerInterceptor does the same for streams. The token of the call is admitted when the stream
// is opened, and again after each message that is received, so that the messages of a holder that has
// become stale are refused. RecvMsg returns the refusal, which the handler has to return.
func StreamServerInterceptor(g *fencing.Gate) grpc.StreamServerInterceptor {
	return func(srv any, s grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
		t, err := incoming(s.Context())
		if err == nil {
			err = admit(g, t)
		}
		if err != nil {
			return err
		}
		return handle(srv, &serverStream{s, t.NewContext(s.Context()), g, t})
	}
}

type serverStream struct {
	grpc.ServerStream
	ctx   context.Context
	gate  *fencing.Gate
	token wire.Token
}

func (s *serverStream) Context() context.Context { return s.ctx }

func (s *serverStream) RecvMsg(m any) error {
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	return admit(s.gate, s.token)
}

func incoming(ctx context.Context) (t wire.Token, err error) {
	switch values := metadata.ValueFromIncomingContext(ctx, Key); len(values) {
	case 0:
		return t, errNone
	case 1:
		if t, err = wire.Parse(values[0]); err != nil {
			return t, garbled(Key + " is " + err.Error())
		}
		return t, nil
	default:
		return t, garbled("the call has more than one " + Key)
	}
}

func admit(g *fencing.Gate, t wire.Token) error {
	err := t.Admit(g)
	var stale *fencing.StaleError
	if errors.As(err, &stale) {
		return Status(stale)
	}
	return err
}
