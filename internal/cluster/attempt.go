package cluster

import (
	"context"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// attempt is the context of one try to send a request, and collects the evidence of its
// outcome. It carries the request's own metadata instead of that of the caller's context.
//
// The evidence comes from witness, the innermost interceptor of every connection. It sees each
// request that is sent, even if one of the user's interceptors sends it several times or drops
// options. If it saw nothing there is no evidence, and the outcome is Unknown.
type attempt struct {
	context.Context // ends with the caller's, and with the attempt's own bound
	login           *login
	opts            [1]grpc.CallOption

	mu      sync.Mutex
	peer    peer.Peer // of the first request
	seen    int       // requests that were sent
	running int       // of those, the ones that have not ended
	unclear int       // of those that have, the ones that may have been applied, or are known to
	closed  bool      // no further request may be sent
}

type attemptKey struct{}

// Value implements context.Context.
func (a *attempt) Value(key any) any {
	if key == (attemptKey{}) {
		return a
	}
	if v := a.login.ctx.Value(key); v != nil {
		return v
	}
	return a.Context.Value(key)
}

// errAttemptEnded is what an interceptor gets if it sends after it has returned.
var errAttemptEnded = status.Error(codes.Canceled, "the call has ended: an interceptor must not send after it has returned")

// witness records, on the attempt of ctx, how a request ended: whether a stream was made for
// it, which gRPC reports by its peer, and with what status.
func witness(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	a, ok := ctx.Value(attemptKey{}).(*attempt)
	if !ok {
		return invoke(ctx, method, req, reply, cc, opts...)
	}
	p := a.begin()
	if p == nil {
		return errAttemptEnded
	}
	err := invoke(ctx, method, req, reply, cc, append(opts, grpc.Peer(p))...)
	a.end(p, err)
	return err
}

// begin records that a request is sent, and returns where gRPC stores its peer; nil if the
// attempt is closed.
func (a *attempt) begin() *peer.Peer {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil
	}
	a.seen++
	a.running++
	if a.seen == 1 {
		return &a.peer
	}
	return new(peer.Peer)
}

// end records that a request ended with err. gRPC has set p if and only if there was a stream.
func (a *attempt) end(p *peer.Peer, err error) {
	outcome := NotApplied
	if p.Addr != nil || p.LocalAddr != nil || p.AuthInfo != nil {
		outcome = Unknown
		if err != nil {
			outcome, _ = classify(err)
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.running--
	if outcome == Unknown {
		a.unclear++
	}
}

// close prevents further requests, and returns what the evidence proves.
//
// copies counts the requests that were applied, or may have been, or still may be. failed is
// the outcome if the attempt failed: NotApplied if some request was sent and copies is 0,
// because for each there was no stream, or the server answered that nothing was applied.
// Otherwise it is Unknown.
func (a *attempt) close() (failed Outcome, copies int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	copies = a.running + a.unclear
	if a.seen == 0 || copies > 0 {
		return Unknown, copies
	}
	return NotApplied, copies
}
