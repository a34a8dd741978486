package cluster

import (
	"context"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// Repeat says when a request is sent again.
type Repeat int

const (
	// IfNotApplied: only after an error that proves that the request was not applied.
	IfNotApplied Repeat = iota
	// Always: after any failure. For reads, and for writes whose second copy is harmless.
	Always
)

const (
	defaultPerTry = 3 * time.Second
	defaultTotal  = 12 * time.Second
)

// Request says how a request is sent. The zero value serves most writes.
type Request struct {
	Op     string        // for error texts, a name for each operation: "enqueue", "lease grant"
	Repeat Repeat        // when it is sent again
	PerTry time.Duration // bound of one try; 0 means 3 s
	Total  time.Duration // bound of all tries together; 0 means 12 s. A context that ends sooner wins
	Avoid  *Member       // another member than this one, if there is one
	On     *Member       // only this one, and one try
	Local  bool          // the answer's revision is not checked: Status, LeaseTimeToLive, MemberList
	Reads  bool          // for Do: it writes nothing, so its failure is NotApplied. Txn finds that out from t
	Lanes  Lanes         // is notified of each try, unless it is nil
	Ticket int           // identifies the request to Lanes

	Parts func() []string // the names of the operations that share it, in the order of its nested transactions; nil means Op alone

	anonymous bool // without a token: Authenticate
}

// Lanes is notified when a try of a request is sent, and when it has ended. Neither method
// blocks.
type Lanes interface {
	Began(ticket int, m *Member, now time.Time)
	Ended(ticket int, answered bool)
}

// Ops are the names of the operations of the request that an interceptor was called for with
// ctx: one, or those of its nested transactions, in their order. Tests recognise requests by them.
func Ops(ctx context.Context) []string {
	t, ok := ctx.Value(tryKey{}).(*try)
	switch {
	case !ok:
		return nil
	case t.parts != nil:
		return t.parts()
	}
	return []string{t.op}
}

// Txn sends t. A nil error means an answer that has passed Check as a linearizable one; so t must
// hold, in one of its branches, whether it runs or not, a write or a Range without Serializable (F14).
// Otherwise the error is an *Error. A transaction without writes is sent again after any failure, whatever
// r.Repeat says, and its failure is NotApplied. t must not be changed until Txn returns.
//
// Txn returns when ctx ends, and within r.Total in any case.
func (c *Cluster) Txn(ctx context.Context, r Request, t *pb.TxnRequest) (*pb.TxnResponse, error) {
	s := sender{c: c, r: r, txn: t}
	if err := s.run(ctx); err != nil {
		return nil, err
	}
	return s.answer, nil
}

// Do is Txn for any other unary call. call sends the request to m once, with the context that
// it is given, and returns the answer's header. It may be called several times, one after the
// other.
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
