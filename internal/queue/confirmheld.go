package queue

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/txn"
)

// Confirm reads, linearizably, whether its own key and the session key are unchanged. nil: they
// were, at some moment during the call. An answer that they are not ends the acquisition; a
// missing answer does not.
func (a *Acquisition) Confirm(ctx context.Context) error {
	if err := a.Err(); err != nil {
		return err
	}
	session, _ := a.s.Key()
	resp, err := a.s.Host().Cluster.Txn(ctx, cluster.Request{Op: "confirm", Repeat: cluster.Always}, &pb.TxnRequest{
		Success: append([]*pb.RequestOp{txn.Stat(session)}, a.ownKeys(txn.Get)...),
	})
	if err != nil {
		if lost := a.Err(); lost != nil {
			return lost
		}
		return a.explain(err)
	}
	a.takeIn(resp)
	return a.Err()
}
