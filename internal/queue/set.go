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

// What only a set of names needs: its release, and what becomes of its other keys when one
// is lost (rules ML5, ML6).

// A set is what an acquisition of several names has beside others.
type set struct {
	watches   []*watcher.Watch // of the other own keys; guarded by the acquisition's mutex
	deletions []deletion       // where it is released key by key; the goroutine with the right to send has them
	doubt     bool             // a release as a whole may have been applied whose answer was lost; as deletions

	unclaimed context.Context // of one that is lost: ends when it is given back
	giveBack  context.CancelFunc
}

// makeSet makes a an acquisition of its names, before anything else is done with it.
func (a *Acquisition) makeSet() {
	if a.isSet() {
		a.set = &set{watches: make([]*watcher.Watch, len(a.more))}
		a.set.unclaimed, a.set.giveBack = context.WithCancel(context.Background())
		a.hook.Several(1 + len(a.more))
	}
}

// A deletion is what a release of a set, key by key, knows of one of its keys.
type deletion struct {
	done  bool              // it is decided, as follows
	was   *state.OwnChanged // as it was deleted; nil: it was not there
	doubt bool              // a delete may have been applied whose answer was lost
}

// releaseSet deletes those of the own keys that are there as they were acquired, in one
// transaction of nested ones, none of which puts anything, so that it works on a full disk.
// Where the role has lost its permission on one name, or the server allows fewer operations
// by now, it deletes key by key: what can be freed is. Only the one that has the right to
// send a release calls it.
func (a *Acquisition) releaseSet(ctx context.Context, repeat cluster.Repeat) (state.DeleteAnswered, error) {
	if a.set.deletions == nil {
		resp, err := a.s.Host().Cluster.Txn(ctx, cluster.Request{Op: "release", Repeat: repeat}, a.deleteAllTxn()) // by itself, as all that nests
		if err == nil {
			return a.deleted(func(i int) *state.OwnChanged {
				if kv := txn.Deleted(txn.Answer(resp, i), 0); kv != nil {
					was := a.shown(i, kv)
					return &was
				}
				return nil
			}), nil
		}
		if !cluster.IsPermissionDenied(err) && !cluster.IsTooManyOps(err) {
			out := outcomeOf(resp, err)
			a.set.doubt = a.set.doubt || out == state.Unknown
			return state.DeleteAnswered{Outcome: out}, err
		}
		a.set.deletions = slices.Repeat([]deletion{{doubt: a.set.doubt}}, len(a.keys))
	}
	if out, err := a.releaseEach(ctx, repeat); err != nil {
		return state.DeleteAnswered{Outcome: out}, err
	}
	return a.deleted(func(i int) *state.OwnChanged { return a.set.deletions[i].was }), nil
}

// deleteAllTxn deletes those of the own keys that are as they were acquired.
func (a *Acquisition) deleteAllTxn() *pb.TxnRequest {
	t := &pb.TxnRequest{}
	for _, key := range a.keys {
		t.Success = append(t.Success, txn.Nested(a.deleteTxn(key)))
	}
	return t
}

// deleteTxn deletes an own key if it is as it was acquired, and shows it as it was.
func (a *Acquisition) deleteTxn(key string) *pb.TxnRequest {
	return &pb.TxnRequest{
		Compare: []*pb.Compare{txn.CreateIs(key, a.own().Create)},
		Success: []*pb.RequestOp{txn.DeletePrevious(key)},
	}
}

// releaseEach deletes key by key what is not decided yet. The error is the first one's, and
// the outcome the worst.
func (a *Acquisition) releaseEach(ctx context.Context, repeat cluster.Repeat) (out state.Outcome, err error) {
	for i, key := range a.keys {
		d := &a.set.deletions[i]
		if d.done {
			continue
		}
		resp, e := a.s.Host().Cluster.Txn(ctx, cluster.Request{Op: "release", Repeat: repeat}, a.deleteTxn(key))
		switch o := outcomeOf(resp, e); {
		case o == state.Applied:
			was := a.shown(i, txn.Deleted(resp, 0))
			d.done, d.was = true, &was
		case o == state.Refused && d.doubt:
			d.done, d.was = true, &state.OwnChanged{Place: i} // it was the delete whose answer was lost
		case o == state.Refused:
			d.done = true
		default:
			d.doubt = d.doubt || o == state.Unknown
			out = max(out, o)
			if err == nil {
				err = e
			}
		}
	}
	return out, err
}

// deleted is the event of a release that was answered: was is how each key was deleted, nil
// where it was not there.
func (a *Acquisition) deleted(was func(i int) *state.OwnChanged) (ev state.DeleteAnswered) {
	there, missing := 0, 0
	for i := range a.keys {
		if w := was(i); w == nil {
			missing = i
		} else if there++; w.Mod >= ev.Was.Mod {
			ev.Was = *w
		}
	}
	if there < len(a.keys) {
		return state.DeleteAnswered{Outcome: state.Refused, Partly: there > 0, Missing: missing}
	}
	return ev
}

// leaveRest has the other keys of a set that is lost deleted in the background, in time: see
// awaitGivenBack. It outlives the session, because more of the keys than the one that ended it
// may not be on its lease any more. A Handle has the session's next process delete them.
func (a *Acquisition) leaveRest() {
	a.s.Reopen(a.n)
	a.s.Host().Cleanup.Go("the rest of "+a.Key(), func(ctx context.Context) {
		if !a.awaitGivenBack(ctx) {
			return
		}
		if a.s.Err() != nil && read(a, (*state.Acquisition).Ended) == state.KeyDeleted {
			return // nobody wrote to them, and their lease takes them along
		}
		if a.tryUntil(ctx, func() bool { return a.deleteRest(ctx) }) {
			a.s.Settle(a.n)
			a.apply(state.Removed{}, nil)
		}
	})
}

// deleteRest tries once to delete what is there of a set, and reports whether nothing is left:
// key by key where it may not be in one transaction.
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

// awaitGivenBack waits until a set that is lost is given back, or has been left unclaimed for
// one TTL. While a call of Do goes on, which gives it back when its function has returned, it
// is not unclaimed: to hand another name on while that winds down would make two of them (rule
// ML6). What is kept for AtLeast is kept. The session's end comes first; false: ctx has ended.
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
			a.mu.Lock()
			if a.working == 0 {
				unused = nil
			}
			a.mu.Unlock()
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

// freeRest lets the other keys of a set that is lost go now.
func (a *Acquisition) freeRest() {
	if a.isSet() {
		a.set.giveBack()
	}
}
