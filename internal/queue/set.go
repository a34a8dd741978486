package queue

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/queue/state"
	"github.com/pawl-locks/pawl/internal/txn"
	"github.com/pawl-locks/pawl/internal/watcher"
)

// This file holds what only a set of names needs: what happens to its other keys when one is lost
// (rule ML6).

// A set is what only an acquisition of several names has.
type set struct {
	unclaimed context.Context // ends when a lost set is released
	giveBack  context.CancelFunc
}

// makeSet makes a, which has not begun, an acquisition of several names.
func (a *Acquisition) makeSet() {
	a.set = &set{}
	a.watches.others = make([]*watcher.Watch, len(a.queues)-1)
	a.set.unclaimed, a.set.giveBack = context.WithCancel(context.Background())
	a.s.SetReads(&a.entry, len(a.queues))
}

// leaveRest has the other keys of a lost set deleted in the background, once they may go. While Do's
// function runs they may not. Do releases the set when the function has returned, and if another name were
// handed on earlier, it would have two holders (rule ML6). The work outlives the session, because other
// keys than the lost one may also no longer be on its lease. A Handle lists them for the session's next
// process to delete.
func (a *Acquisition) leaveRest() {
	a.s.Host().Cleanup.Go("the rest of "+a.Key(), func(ctx context.Context) {
		if !a.awaitKeep(ctx, true) {
			return
		}
		if a.s.Err() != nil && a.endedBy() == state.KeyDeleted {
			return // nobody wrote to them, so they end with their lease
		}
		if a.tryUntil(ctx, func() bool { return a.deleteRest(ctx) }) {
			a.apply(state.Removed{}, nil)
		}
	})
}

// deleteRest tries once to delete what is left of a set, key by key if one transaction is
// refused, and reports whether nothing is left.
func (a *Acquisition) deleteRest(ctx context.Context) bool {
	_, err := a.s.Host().Cluster.Txn(ctx, cluster.Request{Op: "delete the rest of a set", Repeat: cluster.Always},
		&pb.TxnRequest{Success: a.ownKeys(txn.Delete)})
	if !isRefusedAsAWhole(err) {
		return err == nil
	}
	gone := true
	for _, key := range a.keys {
		gone = a.deleteOwn(ctx, state.Key{Name: key, Create: a.own().Create}) == nil && gone
	}
	return gone
}

// isRefusedAsAWhole reports whether the server may accept a part of what it refused with err. That
// is so if the role has lost its permission on a name, or the limit on a transaction's operations
// is lower now.
func isRefusedAsAWhole(err error) bool {
	return cluster.IsPermissionDenied(err) || cluster.IsTooManyOps(err)
}

// releaseRest gives a lost set back.
func (a *Acquisition) releaseRest() {
	if a.isSet() {
		a.s.GiveBack(&a.entry)
		a.set.giveBack()
	}
}

// givenBack returns a channel that is closed when a lost set is given back; nil if it is no set.
func (a *Acquisition) givenBack() <-chan struct{} {
	if a.isSet() {
		return a.set.unclaimed.Done()
	}
	return nil
}
