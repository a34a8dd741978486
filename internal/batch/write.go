package batch

import (
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/internal/cluster"
)

// Kind says which writes may share a request.
type Kind uint8

const (
	// Alone writes are sent alone (rule G1). It is the zero Kind, so that a write shares a
	// request only if its sender says that it may.
	Alone Kind = iota
	// Ordered is the kind of an enqueue, of a take of a slot, and of a release that hands off. It
	// shares a request with no other write to its queues (rule G2).
	Ordered
	// Plain writes only settle, delete or mark entries of their session. They are a settling and an
	// undo, which may put cancel keys, and a deletion.
	Plain
)

// A Write is one transaction of package queue.
type Write struct {
	Op     string         // for error texts
	Repeat cluster.Repeat // when it is sent again
	Kind   Kind
	Queue  string          // the prefix of its queue's keys
	More   []string        // other queues that it touches
	Ended  <-chan struct{} // closed when its session has ended
	Txn    *pb.TxnRequest  // not modified before the write is decided
}

// any reports whether f is true for one of the write's queues.
func (w *Write) any(f func(queue string) bool) bool {
	return f(w.Queue) || slices.ContainsFunc(w.More, f)
}

// puts reports whether the write may need disk space.
func (w *Write) puts() bool { return puts(w.Txn.Success) || puts(w.Txn.Failure) }

func puts(ops []*pb.RequestOp) bool {
	for _, op := range ops {
		if op.GetRequestPut() != nil {
			return true
		}
	}
	return false
}

// sizeOf is an upper bound of t's size in a request. It costs a thirtieth of the exact size.
func sizeOf(t *pb.TxnRequest) (n int) {
	for _, c := range t.Compare {
		n += mostOverhead + len(c.Key) + len(c.RangeEnd) + len(c.GetValue())
	}
	for _, branch := range [...][]*pb.RequestOp{t.Success, t.Failure} {
		for _, op := range branch {
			n += mostOverhead
			switch r := op.GetRequest().(type) {
			case *pb.RequestOp_RequestPut:
				n += len(r.RequestPut.Key) + len(r.RequestPut.Value)
			case *pb.RequestOp_RequestDeleteRange:
				n += len(r.RequestDeleteRange.Key) + len(r.RequestDeleteRange.RangeEnd)
			case *pb.RequestOp_RequestRange:
				n += len(r.RequestRange.Key) + len(r.RequestRange.RangeEnd)
			case *pb.RequestOp_RequestTxn:
				n += sizeOf(r.RequestTxn)
			}
		}
	}
	return n
}

// mostOverhead is the most bytes that a comparison or an operation takes besides its keys and values.
const mostOverhead = 128

// ops is how many operations the server counts for the write.
func (w *Write) ops() int {
	return max(len(w.Txn.Compare), len(w.Txn.Success), len(w.Txn.Failure))
}
