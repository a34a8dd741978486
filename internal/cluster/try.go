package cluster

import (
	"context"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// A try is one sending of a request to one member. It is the context of that sending, with the
// request's metadata instead of that of the caller's context. It collects the evidence of its outcome
// (guarantee 3) from witness, the innermost interceptor of every connection. If that saw no request,
// there is no evidence.
type try struct {
	context.Context // ends with the caller's context, or when the try's time limit has passed
	login           *login
	opts            [1]grpc.CallOption
	op              string // of the request, for Ops
	await                  // its cancel ends the Context

	mu      sync.Mutex
	peer    peer.Peer // of the first request
	seen    int       // requests that were sent
	running int       // of those, the ones that have not ended yet
	unclear int       // of those that have ended, the ones that were or may have been applied
	late    int       // of the unclear ones, those that may still be applied
	closed  bool      // no further request may be sent
}

type tryKey struct{}

// Value implements context.Context.
func (t *try) Value(key any) any {
	if key == (tryKey{}) {
		return t
	}
	if v := t.login.ctx.Value(key); v != nil {
		return v
	}
	return t.Context.Value(key)
}

// errTryEnded is what an interceptor gets if it sends after it has returned.
var errTryEnded = status.Error(codes.Canceled, "the call has ended: an interceptor must not send after it has returned")

// witness records, on the try of ctx, how a request ended: whether a stream was made for
// it, which gRPC reports by its peer, and with what status.
func witness(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	t, ok := ctx.Value(tryKey{}).(*try)
	if !ok {
		return invoke(ctx, method, req, reply, cc, opts...)
	}
	p := t.begin()
	if p == nil {
		return errTryEnded
	}
	err := invoke(ctx, method, req, reply, cc, append(opts, grpc.Peer(p))...)
	t.end(p, err)
	return err
}

// begin records that a request is sent, and returns where gRPC stores its peer. It returns nil if the
// try is closed.
func (t *try) begin() *peer.Peer {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil
	}
	t.seen++
	t.running++
	if t.seen == 1 {
		return &t.peer
	}
	return new(peer.Peer)
}

// end records that a request ended with err. gRPC has set p if and only if there was a stream.
func (t *try) end(p *peer.Peer, err error) {
	outcome := NotApplied
	if p.Addr != nil || p.LocalAddr != nil || p.AuthInfo != nil {
		outcome = Answered
		if err != nil {
			outcome, _ = classify(err)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.running--
	if outcome != NotApplied {
		t.unclear++
	}
	if outcome == Unknown {
		t.late++
	}
}

// close prevents further requests, and returns what the evidence proves. failed is the outcome if the
// try failed (guarantee 3). copies counts the requests that were applied, may have been, or may still
// be.
func (t *try) close() (failed Outcome, copies int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	copies = t.running + t.unclear
	switch {
	case t.seen == 0 || t.running+t.late > 0:
		return Unknown, copies
	case copies > 0:
		return Answered, copies
	}
	return NotApplied, copies
}
