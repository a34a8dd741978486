package batch

import (
	"errors"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/txn"
)

// request makes one transaction of parts. It returns an error if sharing a request would break rule G2,
// whatever the parts' Kind claims.
func request(parts []*part) (*pb.TxnRequest, error) {
	if err := withoutTies(parts); err != nil {
		return nil, err
	}
	ops := make([]*pb.RequestOp, len(parts))
	for i, p := range parts {
		ops[i] = txn.Nested(p.Txn)
	}
	return &pb.TxnRequest{Success: ops}, nil
}

// touch records which part writes to a queue first, whether another part does too, and whether any of
// them puts a key there.
type touch struct {
	part          int
	several, puts bool
}

// withoutTies checks rule G2 on the operations of the transactions: if a part puts a key to a queue, no
// other part writes to that queue.
func withoutTies(parts []*part) error {
	seen := make(map[string]touch, len(parts))
	for i, p := range parts {
		for _, branch := range [...][]*pb.RequestOp{p.Txn.Success, p.Txn.Failure} {
			for _, op := range branch {
				written, puts := written(op)
				key := string(written)
				if key == "" || keys.OfSessions(key) {
					continue
				}
				queue, _ := keys.Split(key)
				t, there := seen[queue]
				if !there {
					t.part = i
				}
				t.several, t.puts = t.several || t.part != i, t.puts || puts
				if t.several && t.puts {
					return fmt.Errorf("%s and %s of the queue %q are not to share a request", parts[t.part].Op, p.Op, queue)
				}
				seen[queue] = t
			}
		}
	}
	return nil
}

// written returns the key that op writes, or nil if it writes none, and whether it puts the key.
func written(op *pb.RequestOp) (key []byte, puts bool) {
	switch r := op.GetRequest().(type) {
	case *pb.RequestOp_RequestPut:
		return r.RequestPut.Key, true
	case *pb.RequestOp_RequestDeleteRange:
		return r.RequestDeleteRange.Key, false
	}
	return nil, false
}

var errParts = errors.New("the answer does not have a part for each transaction")

// answer is the answer to part i of n, with the header of the whole.
func answer(resp *pb.TxnResponse, i, n int) (*pb.TxnResponse, error) {
	if len(resp.Responses) != n {
		return nil, errParts
	}
	part := resp.Responses[i].GetResponseTxn()
	if part == nil {
		return nil, errParts
	}
	part.Header = resp.Header
	return part, nil
}
