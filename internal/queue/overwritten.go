package queue

import (
	"context"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/internal/backoff"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/queue/state"
	"github.com/pawl-locks/pawl/internal/txn"
)

// removeOverwritten deletes an own key after somebody else wrote to it. It outlives the
// session: that key may not be on its lease any more, so nothing else would take it out
// of the queue. Work that defers the revocation of the lease
// defers this, and so does a promise.
func (a *Acquisition) removeOverwritten(ctx context.Context, own state.Key) {
	if !a.s.AwaitDeferred(ctx) || !a.awaitPromise(ctx) {
		return
	}
	if !a.tryUntil(ctx, func() bool { return a.deleteOwn(ctx, own) == nil }) {
		return
	}
	if !a.isSet() && !read(a, (*state.Acquisition).Trying) { // the rest goes by itself
		a.s.Vanished(a.n)
		a.apply(state.Removed{}, nil)
	}
}

// tryUntil tries again and again until that succeeds; false: ctx, or the cluster's client, has
// ended.
func (a *Acquisition) tryUntil(ctx context.Context, try func() bool) bool {
	wait := backoff.Backoff{First: 100 * time.Millisecond, Most: 2 * time.Second}
	for !try() {
		if !backoff.Wait(wait.Next(), ctx.Done(), a.s.Host().Cluster.Ended()) {
			return false
		}
	}
	return true
}

// deleteOwn tries once to delete an own key. nil: it is not there.
func (a *Acquisition) deleteOwn(ctx context.Context, own state.Key) error {
	_, err := a.s.Host().Cluster.Txn(ctx, cluster.Request{Op: "delete overwritten key", Repeat: cluster.Always}, &pb.TxnRequest{
		Compare: []*pb.Compare{txn.CreateIs(own.Name, own.Create)},
		Success: []*pb.RequestOp{txn.Delete(own.Name)},
		Failure: []*pb.RequestOp{txn.Stat(own.Name)},
	})
	return err
}
