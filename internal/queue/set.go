package queue

import (
	"context"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/queue/state"
	"github.com/pawl-locks/pawl/internal/session"
	"github.com/pawl-locks/pawl/internal/txn"
	"github.com/pawl-locks/pawl/internal/watcher"
)

// What only a set of names needs: its release, and what happens to its other keys when one is
// lost (rules ML5, ML6).

// A set is what only an acquisition of several names has.
type set struct {
	deletes []state.KeyDelete // of a release key by key; used by the goroutine with the right to send
	doubt   bool              // a release of all keys may have been applied whose answer was lost; used like deletes

	unclaimed context.Context // for a lost set: ends when it is released
	giveBack  context.CancelFunc
}

// makeSet makes a an acquisition of several names; it is called first.
func (a *Acquisition) makeSet() {
	if a.isSet() {
		a.set = &set{}
		a.watches.others = make([]*watcher.Watch, len(a.more))
		a.set.unclaimed, a.set.giveBack = context.WithCancel(context.Background())
		a.hook.Several(1 + len(a.more))
	}
}

// releaseSet deletes its own keys, as far as they exist as they were acquired, in one
// transaction of nested ones. None of them puts anything, so that it works on a full disk. If
// the role has lost its permission on one name, or the server now allows fewer operations, it
// deletes key by key, so that what can be freed is freed. Only the goroutine with the right to
// send a release calls it.
func (a *Acquisition) releaseSet(ctx context.Context, repeat cluster.Repeat) (state.DeleteAnswered, error) {
	if a.set.deletes == nil {
		resp, err := a.s.Host().Cluster.Txn(ctx, cluster.Request{Op: "release", Repeat: repeat}, a.deleteAllTxn()) // alone, like everything that nests
		if err == nil {
			return state.SetDeleted(a.deleted(resp)), nil
		}
		if !cluster.IsPermissionDenied(err) && !cluster.IsTooManyOps(err) {
			out := outcomeOf(resp, err)
			a.set.doubt = a.set.doubt || out == state.Unknown
			return state.DeleteAnswered{Outcome: out}, err
		}
		a.set.deletes = slices.Repeat([]state.KeyDelete{{Doubt: a.set.doubt}}, len(a.keys))
	}
	if out, err := a.releaseEach(ctx, repeat); err != nil {
		return state.DeleteAnswered{Outcome: out}, err
	}
	return state.SetDeleted(a.set.deletes), nil
}

// deleted reads the answer to deleteAllTxn.
func (a *Acquisition) deleted(resp *pb.TxnResponse) []state.KeyDelete {
	all := make([]state.KeyDelete, len(a.keys))
	for i := range all {
		if kv := txn.Deleted(txn.Answer(resp, i), 0); kv != nil {
			was := a.shown(i, kv)
			all[i].Was = &was
		}
	}
	return all
}

// deleteAllTxn deletes its own keys, as far as they are as they were acquired.
func (a *Acquisition) deleteAllTxn() *pb.TxnRequest {
	t := &pb.TxnRequest{}
	for _, key := range a.keys {
		t.Success = append(t.Success, txn.Nested(a.deleteTxn(key)))
	}
	return t
}

// deleteTxn deletes one of its own keys if it is as it was acquired, and returns it as it was.
func (a *Acquisition) deleteTxn(key string) *pb.TxnRequest {
	return &pb.TxnRequest{
		Compare: []*pb.Compare{txn.CreateIs(key, a.own().Create)},
		Success: []*pb.RequestOp{txn.DeletePrevious(key)},
	}
}

// releaseEach deletes, key by key, what is not decided yet. It returns the first error, and the
// worst outcome.
func (a *Acquisition) releaseEach(ctx context.Context, repeat cluster.Repeat) (out state.Outcome, err error) {
	for i, key := range a.keys {
		d := &a.set.deletes[i]
		if d.Decided {
			continue
		}
		resp, e := a.s.Host().Cluster.Txn(ctx, cluster.Request{Op: "release one of a set", Repeat: repeat}, a.deleteTxn(key))
		o := outcomeOf(resp, e)
		d.Answered(o, a.shown(i, txn.Deleted(resp, 0)))
		if out = max(out, o); e != nil && err == nil {
			err = e
		}
	}
	return out, err
}

// leaveRest has the other keys of a lost set deleted in the background, when awaitGivenBack
// allows. The work outlives the session, because other keys than the one that was lost may also
// no longer be on its lease. A Handle lists them for the session's next process to delete.
func (a *Acquisition) leaveRest() {
	a.s.Reopen(a.n)
	a.s.Host().Cleanup.Go("the rest of "+a.Key(), func(ctx context.Context) {
		if !a.awaitGivenBack(ctx) {
			return
		}
		if a.s.Err() != nil && read(a, (*state.Machine).Ended) == state.KeyDeleted {
			return // nobody wrote to them, so they end with their lease
		}
		if a.tryUntil(ctx, func() bool { return a.deleteRest(ctx) }) {
			a.s.Absent(a.n)
			a.apply(state.Removed{}, nil)
		}
	})
}

// deleteRest tries once to delete what is left of a set, key by key if one transaction is
// refused, and reports whether nothing is left.
func (a *Acquisition) deleteRest(ctx context.Context) bool {
	_, err := a.s.Host().Cluster.Txn(ctx, cluster.Request{Op: "delete the rest of a set", Repeat: cluster.Always}, a.deleteAllTxn())
	if !cluster.IsPermissionDenied(err) && !cluster.IsTooManyOps(err) {
		return err == nil
	}
	gone := true
	for _, key := range a.keys {
		gone = a.deleteOwn(ctx, state.Key{Name: key, Create: a.own().Create}) == nil && gone
	}
	return gone
}

// awaitGivenBack waits until a lost set is released, or has been left unclaimed for one TTL.
// While Do's function runs the set is not unclaimed: Do releases it when the function has
// returned, and if another name were handed on earlier, it would have two holders (rule ML6).
// It also waits for Limits.AtLeast. The session's end stops the waiting; false: ctx has ended.
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

// freeRest lets awaitGivenBack return for a lost set.
func (a *Acquisition) freeRest() {
	if a.isSet() {
		a.set.giveBack()
	}
}
