package cluster

import (
	"context"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// Repeat says when a request is sent again.
type Repeat int

const (
	// IfNotApplied repeats only after an error that proves that the request was not applied.
	IfNotApplied Repeat = iota
	// Always repeats after any failure. It is for reads, and for writes whose second copy is harmless.
	Always
)

const (
	defaultPerTry = 3 * time.Second
	defaultTotal  = 12 * time.Second
)

// Request says how a request is sent. The zero value serves most writes.
type Request struct {
	Op      string        // names the operation in error texts, such as "enqueue" or "lease grant"; several that share it are joined by Shared
	Repeat  Repeat        // when it is sent again
	PerTry  time.Duration // limits one try; 0 means Member.TryFor
	Total   time.Duration // limits all tries together; 0 means 12 s. A context that ends sooner wins
	Avoid   *Member       // use another member than this one, if there is one
	On      *Member       // use only this member, and one try
	Local   bool          // the answer's revision is not checked, as with Status, LeaseTimeToLive and MemberList
	Reads   bool          // for Do, it writes nothing, so its failure is NotApplied; Txn finds that out from t
	Tracker Tracker       // is notified of each try, unless it is nil
	Ticket  int           // identifies the request to Tracker

	anonymous bool // sent without a token, as Authenticate is
}

// A Tracker is notified when a try of a request is sent, and when one has ended and another is to follow.
// Neither method blocks.
type Tracker interface {
	Began(ticket int, m *Member, now time.Time)
	Paused(ticket int)
}

// Shared joins, in a request's Op, the names of the operations of its nested transactions, in their order.
const Shared = "+"

// Ops returns the names of the operations of the request for which an interceptor was called with ctx.
// There is one, or one for each of its nested transactions, in their order. Tests recognise requests by
// them.
func Ops(ctx context.Context) []string {
	if t, ok := ctx.Value(tryKey{}).(*try); ok {
		return strings.Split(t.op, Shared)
	}
	return nil
}

// Txn sends t. If its error is nil, the answer has passed Check as a linearizable one. So t must
// contain, in one of its branches, whether that runs or not, a write or a Range without Serializable
// (F14). Any error is an *Error. A transaction without writes is sent again after any failure, whatever
// r.Repeat says, and its failure is NotApplied. t must not be changed until Txn returns.
//
// Txn returns when ctx ends, and in any case within r.Total.
func (c *Cluster) Txn(ctx context.Context, r Request, t *pb.TxnRequest) (*pb.TxnResponse, error) {
	s := sender{c: c, r: r, txn: t}
	if err := s.run(ctx); err != nil {
		return nil, err
	}
	return s.answer, nil
}

// Do is Txn for any other unary call. call sends the request to m once, with the ctx that is passed to
// it, and returns the answer's header. It may be called several times, one after the other.
func (c *Cluster) Do(ctx context.Context, r Request, call func(ctx context.Context, m *Member) (*pb.ResponseHeader, error)) error {
	s := sender{c: c, r: r, call: call}
	return s.run(ctx)
}

// readOnly reports whether the operations write nothing.
func readOnly(ops []*pb.RequestOp) bool {
	for _, op := range ops {
		switch r := op.GetRequest().(type) {
		case *pb.RequestOp_RequestRange:
		case *pb.RequestOp_RequestTxn:
			if !readOnly(r.RequestTxn.GetSuccess()) || !readOnly(r.RequestTxn.GetFailure()) {
				return false
			}
		default:
			return false
		}
	}
	return true
}
