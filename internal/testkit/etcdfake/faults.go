package etcdfake

import (
	"context"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/metadata"

	"github.com/pawl-locks/pawl/internal/etcdapi"
)

// Request is one request, or one message on a stream, as a rule sees it.
type Request struct {
	Member   *Member
	Method   string // as in the service: "Range", "Txn", "LeaseKeepAlive", "Watch" …
	Opening  bool   // a stream is being opened; Message is nil then
	Message  etcdapi.Message
	Metadata metadata.MD
}

// OpHeader is the metadata in which a client names the operations in its request, in the order of
// its nested transactions. Package named makes a client do so.
const OpHeader = "pawl-op"

// Ops are the names of the operations in q.
func (q Request) Ops() []string { return q.Metadata.Get(OpHeader) }

// Parts are the transactions in q that are an op, each either all of q or nested in it.
func (q Request) Parts(op string) (parts []*pb.TxnRequest) {
	t, ok := q.Message.(*pb.TxnRequest)
	ops := q.Ops()
	for i, name := range ops {
		switch {
		case !ok || name != op:
		case len(ops) == 1:
			parts = append(parts, t)
		default:
			parts = append(parts, t.Success[i].GetRequestTxn())
		}
	}
	return parts
}

// Rule says what happens to the requests it matches. The zero value of each field changes nothing.
// If several rules match, the first one injected that is not used up decides alone.
//
// A message on a KeepAlive or Watch stream is also a request. The messages of one stream are
// handled one after the other, so a delayed one holds up the rest.
type Rule struct {
	Member  *Member                                // any if nil
	Method  string                                 // any if ""
	Op      string                                 // an operation that the request is or contains; any if ""
	Opening bool                                   // match the opening of streams, and nothing else
	Match   func(Request) bool                     // all if nil; called without any lock held
	Skip    int                                    // let so many matching ones pass first
	Times   int                                    // then hit so many, or all until lifted if 0
	Forge   func(Request) (etcdapi.Message, error) // the request is not applied, and the client gets this

	Lose  bool          // it never arrives
	Delay time.Duration // it arrives so much later, even if the client has given up by then
	Late  time.Duration // it is applied so much later, while the client gets Err, or nothing, at once
	Again time.Duration // it is applied once more, so long after the first time

	HoldAnswer time.Duration                  // the answer comes so much later
	Edit       func(Request, etcdapi.Message) // alters the answer, of which it gets a copy
	Err        error                          // a gRPC status to send in place of the answer; it ends a stream
	Hang       bool                           // no answer, until the client gives up; a stream continues
}

// Fault is a rule in force.
type Fault struct {
	c    *Cluster
	rule Rule
	// Guarded by c.mu.
	seen, hits int
	lifted     bool
}

// Inject adds a rule after those in force.
func (c *Cluster) Inject(r Rule) *Fault {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := &Fault{c: c, rule: r}
	c.faults = append(c.faults[:len(c.faults):len(c.faults)], f)
	return f
}

// Lift ends the rule for requests to come.
func (f *Fault) Lift() {
	f.c.mu.Lock()
	defer f.c.mu.Unlock()
	f.lifted = true
}

// Hits returns how many requests the rule was applied to.
func (f *Fault) Hits() int {
	f.c.mu.Lock()
	defer f.c.mu.Unlock()
	return f.hits
}

// LiftAll ends all rules.
func (c *Cluster) LiftAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range c.faults {
		f.lifted = true
	}
	c.faults = nil
}

// match finds the rule for a request, or nil. It completes the request.
func (c *Cluster) match(ctx context.Context, req *Request) *Rule {
	c.mu.Lock()
	faults := c.faults
	c.mu.Unlock()
	if len(faults) > 0 {
		req.Metadata, _ = metadata.FromIncomingContext(ctx)
	}
	for _, f := range faults {
		if f.rule.concerns(*req) && f.take() {
			return &f.rule
		}
	}
	return nil
}

func (r *Rule) concerns(req Request) bool {
	return (r.Member == nil || r.Member == req.Member) &&
		(r.Method == "" || r.Method == req.Method) &&
		(r.Op == "" || slices.Contains(req.Ops(), r.Op)) &&
		r.Opening == req.Opening &&
		(r.Match == nil || r.Match(req))
}

// take counts a matching request and reports whether the rule applies to it.
func (f *Fault) take() bool {
	f.c.mu.Lock()
	defer f.c.mu.Unlock()
	if f.lifted || f.rule.Times > 0 && f.hits >= f.rule.Times {
		return false
	}
	f.seen++
	if f.seen <= f.rule.Skip {
		return false
	}
	f.hits++
	return true
}
