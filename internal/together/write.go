package together

import (
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/internal/cluster"
)

// Kind says with what a write may share a request.
type Kind uint8

const (
	// Alone goes alone (rule G1). It is the zero Kind, so that nothing travels with
	// others unless somebody says that it may.
	Alone Kind = iota
	// Ordered is an enqueue, or a release that hands off: it shares a request with
	// nothing else of its queues (rule G2).
	Ordered
	// Plain touches its own keys alone: a settling, a deletion, an undo.
	Plain
)

// A Write is one transaction of the queue's.
type Write struct {
	Op     string         // for error texts
	Repeat cluster.Repeat // when it is sent again
	Kind   Kind
	Queue  string          // what the keys of its queue begin with
	More   []string        // further queues that it touches
	Lease  int64           // of its session
	Over   <-chan struct{} // closed when its session has ended
	Txn    *pb.TxnRequest  // not to be changed until the write is decided
}

// puts reports whether the write can take up room.
func (w *Write) puts() bool { return puts(w.Txn.Success) || puts(w.Txn.Failure) }

func puts(ops []*pb.RequestOp) bool {
	for _, op := range ops {
		if op.GetRequestPut() != nil {
			return true
		}
	}
	return false
}

// ops is how many operations the server counts.
func (w *Write) ops() int {
	return max(len(w.Txn.Compare), len(w.Txn.Success), len(w.Txn.Failure))
}
