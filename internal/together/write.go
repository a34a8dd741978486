package together

import (
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/internal/cluster"
)

// Kind says which writes may share a request.
type Kind uint8

const (
	// Alone writes are sent alone (rule G1). It is the zero Kind, so that a write shares a
	// request only if its sender says that it may.
	Alone Kind = iota
	// Ordered is the kind of an enqueue, and of a release that hands off: it shares a request
	// with nothing else of its queues (rule G2).
	Ordered
	// Plain writes touch only their own keys: a settling, a deletion, an undo.
	Plain
)

// A Write is one transaction of package queue.
type Write struct {
	Op     string         // for error texts
	Repeat cluster.Repeat // when it is sent again
	Kind   Kind
	Queue  string          // the prefix of its queue's keys
	More   []string        // other queues that it touches
	Lease  int64           // of its session
	Over   <-chan struct{} // closed when its session has ended
	Txn    *pb.TxnRequest  // not modified until the write is decided
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

// ops is how many operations the server counts for it.
func (w *Write) ops() int {
	return max(len(w.Txn.Compare), len(w.Txn.Success), len(w.Txn.Failure))
}
