package cluster

import (
	"context"
	"math/bits"
	"slices"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
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

	answer pb.TxnResponse // of a transaction
	peer   peer.Peer      // of the first request
	state  atomic.Uint64  // what became of its requests: the bits below, and above them how many have not ended
}

// The bits of try.state. Each is set once. The count above them is raised before the first of a request's bits
// is set, and lowered after the last, so a request whose bits are not all there counts as under way.
const (
	trySeen    uint64 = 1 << iota // a request was sent
	tryUnclear                    // one that has ended was applied, or may have been
	trySeveral                    // and so was another
	tryLate                       // one that has ended may still be applied
	tryClosed                     // no further request may be sent
	tryRunning                    // the unit of the count
)

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
	err := invoke(ctx, method, req, reply, cc, append(slices.Clip(opts), grpc.Peer(p))...) // opts may be another copy's, too
	t.end(p, err)
	return err
}

// begin records that a request is sent, and returns where gRPC stores its peer. It returns nil if the
// try is closed.
func (t *try) begin() *peer.Peer {
	if t.state.Add(tryRunning)&tryClosed != 0 {
		return nil
	}
	if t.state.Or(trySeen)&trySeen == 0 {
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
	if outcome != NotApplied && t.state.Or(tryUnclear)&tryUnclear != 0 {
		t.state.Or(trySeveral)
	}
	if outcome == Unknown {
		t.state.Or(tryLate)
	}
	t.state.Add(^(tryRunning - 1)) // minus tryRunning
}

// close prevents further requests, and returns what the evidence proves. failed is the outcome if the
// try failed (guarantee 3). copies is how many requests were applied, may have been, or may still be: none,
// one, or more.
func (t *try) close() (failed Outcome, copies int) {
	s := t.state.Or(tryClosed)
	copies = int(s/tryRunning) + bits.OnesCount64(s&(tryUnclear|trySeveral))
	switch {
	case s&trySeen == 0 || s >= tryRunning || s&tryLate != 0:
		return Unknown, copies
	case copies > 0:
		return Answered, copies
	}
	return NotApplied, copies
}
