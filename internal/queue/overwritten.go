package queue

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/internal/backoff"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/queue/state"
	"github.com/pawl-locks/pawl/internal/session"
	"github.com/pawl-locks/pawl/internal/txn"
)

// removeOverwritten deletes one of the keys after somebody else wrote to it, once it may go. The removal
// outlives the session, because the key may no longer be on the session's lease, and then nothing else
// would remove it from the queue.
func (a *Acquisition) removeOverwritten(ctx context.Context, own state.Key) {
	if !a.awaitKeep(ctx, false) {
		return
	}
	if !a.tryUntil(ctx, func() bool { return a.deleteOwn(ctx, own) == nil }) {
		return
	}
	if !a.isSet() && !ask(a, (*session.Entry).Trying) { // otherwise the rest is deleted by leaveRest
		a.apply(state.Removed{}, nil)
	}
}

// tryUntil calls try until it succeeds. It returns false if ctx or the cluster's client ends first.
func (a *Acquisition) tryUntil(ctx context.Context, try func() bool) bool {
	wait := backoff.Background()
	for !try() {
		if !backoff.Wait(wait.Next(), ctx.Done(), a.s.Host().Cluster.Ended()) {
			return false
		}
	}
	return true
}

// deleteOwn tries once to delete one of the keys. It returns nil if the key no longer exists.
func (a *Acquisition) deleteOwn(ctx context.Context, own state.Key) error {
	_, err := a.s.Host().Cluster.Txn(ctx, cluster.Request{Op: "delete overwritten key", Repeat: cluster.Always}, &pb.TxnRequest{
		Compare: []*pb.Compare{txn.CreateIs(own.Name, own.Create)},
		Success: []*pb.RequestOp{txn.Delete(own.Name)},
		Failure: []*pb.RequestOp{txn.Stat(own.Name)},
	})
	return err
}
