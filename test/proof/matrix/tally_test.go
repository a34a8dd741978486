package matrix

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"

	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/txn"
)

// sent is what clients acquired, and which requests it took.
type sent struct {
	Acquired int // locks, sets of them, slots and terms
	Requests int // that write to queues, each try of each
	Shared   int // of them: with several writes
	Together int // the writes in those
}

func (s *sent) add(o sent) {
	s.Acquired += o.Acquired
	s.Requests += o.Requests
	s.Shared += o.Shared
	s.Together += o.Together
}

// writes is how many writes the requests held.
func (s sent) writes() int { return s.Requests - s.Shared + s.Together }

// tally counts what one client has sent since the last take.
type tally struct{ acquired, requests, shared, together atomic.Int64 }

func (c *tally) take() sent {
	return sent{int(c.acquired.Swap(0)), int(c.requests.Swap(0)), int(c.shared.Swap(0)), int(c.together.Swap(0))}
}

// count is an interceptor.
func (c *tally) count(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if t, ok := req.(*pb.TxnRequest); ok {
		n := writesIn(t)
		if n > 0 {
			c.requests.Add(1)
		}
		if n > 1 {
			c.shared.Add(1)
			c.together.Add(int64(n))
		}
	}
	return invoke(ctx, method, req, reply, cc, opts...)
}

// writesIn is how many writes to queues share t: as many as there are acquisitions to which its
// transactions belong, because those of a set's release are one write.
func writesIn(t *pb.TxnRequest) int {
	of := map[keys.QueueKey]bool{acquisitionOf(t): true}
	for _, op := range t.Success {
		if nested := op.GetRequestTxn(); nested != nil {
			of[acquisitionOf(nested)] = true
		}
	}
	delete(of, keys.QueueKey{})
	return len(of)
}

// acquisitionOf is the acquisition whose key t writes first, by lease and number; the zero
// value: it writes no key of a queue.
func acquisitionOf(t *pb.TxnRequest) keys.QueueKey {
	for _, op := range slices.Concat(t.Success, t.Failure) {
		key := op.GetRequestPut().GetKey()
		if key == nil {
			key = op.GetRequestDeleteRange().GetKey()
		}
		if k, ok := keys.ParseQueueKey(string(key)); ok {
			return keys.QueueKey{Lease: k.Lease, N: k.N}
		}
	}
	return keys.QueueKey{}
}

func TestTheWritesThatShareARequestAreCounted(t *testing.T) {
	del := func(key string) *pb.TxnRequest { return &pb.TxnRequest{Success: []*pb.RequestOp{txn.Delete(key)}} }
	several := func(all ...*pb.TxnRequest) *pb.TxnRequest {
		t := &pb.TxnRequest{}
		for _, one := range all {
			t.Success = append(t.Success, txn.Nested(one))
		}
		return t
	}
	for name, at := range map[string]struct {
		txn  *pb.TxnRequest
		want int
	}{
		"a read":                {&pb.TxnRequest{Success: []*pb.RequestOp{txn.Get("a/5-1")}}, 0},
		"a caller's write":      {del("data/a"), 0},
		"one":                   {del("a/5-1"), 1},
		"a set's release":       {several(del("a/5-1"), del("b/+5-1")), 1},
		"two of one session":    {several(del("a/5-1"), del("a/5-2")), 2},
		"three of two sessions": {several(del("a/5-1"), del("b/6-1"), del("b/5-2")), 3},
	} {
		assert.Equal(t, at.want, writesIn(at.txn), name)
	}
}
