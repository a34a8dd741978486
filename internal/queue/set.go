package queue

import (
	"context"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/queue/state"
	"github.com/pawl-locks/pawl/internal/session"
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
	a.s.SetReads(&a.hook, len(a.queues))
}

// leaveRest has the other keys of a lost set deleted in the background, when awaitGivenBack allows
// and the lock-delay has passed, at delayed. The work outlives the session, because other keys than
// the lost one may also no longer be on its lease. A Handle lists them for the session's next
// process to delete.
func (a *Acquisition) leaveRest(delayed clock.Instant) {
	a.reopen(delayed)
	a.s.Host().Cleanup.Go("the rest of "+a.Key(), func(ctx context.Context) {
		if !a.awaitGivenBack(ctx) || !session.AwaitInstant(ctx, delayed) {
			return
		}
		if a.s.Err() != nil && a.now().End == state.KeyDeleted {
			return // nobody wrote to them, so they end with their lease
		}
		if a.tryUntil(ctx, func() bool { return a.deleteRest(ctx) }) {
			a.s.Learn(a.n, session.Absent)
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

// awaitGivenBack waits until a lost set is released, or has been left unclaimed for one TTL. While
// Do's function runs, the set is not unclaimed. Do releases it when the function has returned, and
// if another name were handed on earlier, it would have two holders (rule ML6). Unless the set is
// released meanwhile, it then waits for work that defers the revocation, and for promises. Last it
// waits for Limits.AtLeast. The session's end stops the first and the last of these waits. It
// returns false if ctx has ended.
func (a *Acquisition) awaitGivenBack(ctx context.Context) bool {
	unclaimed, claim := context.WithCancel(ctx)
	defer claim()
	defer context.AfterFunc(a.set.unclaimed, claim)()
	ended := a.s.Context().Done()
	for unused := time.After(a.s.TTL()); unused != nil && unclaimed.Err() == nil; {
		select {
		case <-unclaimed.Done():
		case <-ended:
			unused = nil
		case <-unused:
			if !a.callers.working() {
				unused = nil
			}
		}
	}
	if a.s.AwaitDeferred(unclaimed) {
		a.awaitPromise(unclaimed)
	}
	lasts, end := context.WithCancel(ctx)
	defer end()
	defer context.AfterFunc(a.s.Context(), end)()
	session.AwaitInstant(lasts, a.keptUntil())
	return ctx.Err() == nil
}

// releaseRest lets awaitGivenBack return for a lost set.
func (a *Acquisition) releaseRest() {
	if a.isSet() {
		a.set.giveBack()
	}
}
