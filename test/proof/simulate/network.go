package simulate

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// network is the network between clients and a real server. It loses, delays and repeats requests
// and their answers.
type network struct {
	mu    sync.Mutex
	rules []*rule
	late  sync.WaitGroup // repetitions under way
}

// rule is one fault in force.
type rule struct {
	client int    // any if -1
	method string // any if ""
	times  int    // how many more it strikes; all if < 0
	lost   bool   // the request never arrives
	hang   bool   // no answer, until the caller gives up
	delay  time.Duration
	again  time.Duration // it arrives once more, so much later
	err    error         // in place of the answer
	mute   bool          // streams send nothing more until it is lifted
	lifted chan struct{}
}

func (n *network) add(r *rule) (lift func()) {
	r.lifted = make(chan struct{})
	n.mu.Lock()
	defer n.mu.Unlock()
	n.rules = append(n.rules, r)
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		if i := slices.Index(n.rules, r); i >= 0 {
			n.rules = slices.Delete(n.rules, i, i+1)
			close(r.lifted)
		}
	}
}

func (n *network) liftAll() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, r := range n.rules {
		close(r.lifted)
	}
	n.rules = nil
}

// match finds the rule for a request, or for a stream's message.
func (n *network) match(client int, method string, stream bool) *rule {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, r := range n.rules {
		if r.mute == stream && (r.client < 0 || r.client == client) && strings.HasSuffix(method, r.method) && r.times != 0 {
			r.times--
			return r
		}
	}
	return nil
}

// options are a client's dial options.
func (n *network) options(client int) []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			r := n.match(client, method, false)
			if r == nil {
				return invoke(ctx, method, req, reply, cc, opts...)
			}
			return n.fault(ctx, r, func(ctx context.Context, reply any) error {
				return invoke(ctx, method, req, reply, cc, opts...)
			}, reply)
		}),
		grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			s, err := open(ctx, desc, cc, method, opts...)
			if err != nil {
				return nil, err
			}
			return &stream{s, n, client, method}, nil
		}),
	}
}

func (n *network) fault(ctx context.Context, r *rule, send func(ctx context.Context, reply any) error, reply any) error {
	select {
	case <-time.After(r.delay):
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
	if r.lost {
		if r.err != nil {
			return r.err
		}
		<-ctx.Done()
		return status.FromContextError(ctx.Err()).Err()
	}
	err := send(ctx, reply)
	if r.again > 0 {
		other := proto.Clone(reply.(proto.Message))
		n.late.Go(func() { // ends within a minute
			time.Sleep(r.again)
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
			defer cancel()
			_ = send(ctx, other)
		})
	}
	if r.hang {
		<-ctx.Done()
		return status.FromContextError(ctx.Err()).Err()
	}
	if r.err != nil {
		return r.err
	}
	return err
}

// stream is a stream whose answers can be delayed.
type stream struct {
	grpc.ClientStream
	n      *network
	client int
	method string
}

func (s *stream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if r := s.n.match(s.client, s.method, true); r != nil && err == nil {
		if r.err != nil {
			return r.err
		}
		select {
		case <-r.lifted:
		case <-s.Context().Done():
			return status.Error(codes.Canceled, "held up")
		}
	}
	return err
}
