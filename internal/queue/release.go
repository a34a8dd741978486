package queue

import (
	"context"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/pawl-locks/pawl/internal/batch"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/etcdapi"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/queue/state"
	"github.com/pawl-locks/pawl/internal/txn"
)

// Release ends the hold at once, so that Err returns as, and then deletes the key. It returns nil
// if it was held until then and nobody else had written to the key, and an error that matches
// ErrLost if it was not. An error that matches kv.ErrUnknown means that the deletion is
// unconfirmed and continues in the background. Another call tries again, and once it is decided
// every call returns the same answer. If ctx is done, Release still sends, and waits no longer than
// cluster.Grace. If Limits.AtLeast keeps the key for now, Release sends nothing, and the key is
// deleted in the background.
func (a *Acquisition) Release(ctx context.Context, as error) error {
	first, err := a.markReleased(as)
	if err != nil {
		a.releaseRest()
		return err
	}
	graced, cancel := cluster.WithGrace(ctx, cluster.Grace)
	defer cancel()
	decided, err := a.deleteKeys(graced, first)
	if decided {
		a.notifyReleased(nil)
		return err
	}
	a.deleteInBackground()
	if ctx.Err() != nil {
		err = fmt.Errorf("%w (%v)", cluster.EndOf(ctx), err)
	}
	err = fmt.Errorf("%w: the release is pending: %w", cluster.ErrUnknown, err)
	a.notifyReleased(err)
	return err
}

// markReleased marks it as released, or returns why it was lost before. Who marks it has the turn to send
// first, which is nil if nothing is sent now.
func (a *Acquisition) markReleased(as error) (first *deletion, lost error) {
	lost = a.Err() // compares the clock
	var did step
	a.mu.Lock()
	if a.entry.WasReleased() {
		lost = nil
	} else if lost == nil {
		did = a.step(state.Released{Later: a.entry.Stays()}, as)
		if a.entry.Phase == state.Releasing {
			a.deleting.taken = true
			first = a.nextDeletion()
		}
	}
	released := a.entry.WasReleased()
	a.mu.Unlock()
	a.carryOut(did)
	if lost == nil && !released {
		lost = a.endedMeanwhile()
	}
	if did.End == state.GivenBack && did.Remove {
		a.notifyReleased(nil) // the key stays for now
	}
	return first, lost
}

// deleteKeys tries to delete the keys until the result is decided, an error shows that they cannot be
// deleted for now, or ctx ends. If it is decided, err says whether it was lost before. Only one goroutine at a
// time sends. Therefore a bare delete that finds no key means a loss, unless the answer of an earlier delete
// was lost. d is the first deletion, if it is the caller's turn.
func (a *Acquisition) deleteKeys(ctx context.Context, d *deletion) (decided bool, err error) {
	if d == nil {
		if d, err = a.awaitTurn(ctx); err != nil {
			return false, err
		}
	}
	repeat := cluster.IfNotApplied // so that a lost answer is noticed
	for d != nil {
		var ev state.DeleteAnswered
		ev, err = a.sendRelease(ctx, *d, repeat)
		ev.Repeated, ev.Ended = repeat == cluster.Always, ctx.Err() != nil
		var why error
		if ev.Remains.Gone > 0 {
			why = a.goneBefore(ev.Remains)
		}
		var verdict state.Verdict
		if verdict, d = a.learns(ev, why); verdict == state.Explain {
			if verdict, d, why = a.explainRelease(ctx); why != nil {
				return false, why
			}
		} else if ev.Outcome == state.Unknown {
			repeat = cluster.Always
		}
		switch {
		case verdict == state.Stop, verdict == state.Doubt, verdict == state.Finished && cluster.IsPermissionDenied(err):
			return false, err
		}
	}
	if !a.ended.Load().released {
		return true, a.endedMeanwhile()
	}
	return true, nil
}

// learns gives ev, which answers a deletion or explains it, to the state. next is the deletion that has to
// follow. If none follows, and nothing has to be explained, the turn ends.
func (a *Acquisition) learns(ev state.Event, why error) (v state.Verdict, next *deletion) {
	a.mu.Lock()
	did := a.step(ev, why)
	switch did.Verdict {
	case state.Bare:
		next = a.nextDeletion()
	case state.Explain:
	default:
		a.deleting.leave()
	}
	a.mu.Unlock()
	a.carryOut(did)
	if did.Rest {
		a.releaseRest()
	}
	return did.Verdict, next
}

// A turn lets one goroutine at a time send. The mutex guards it.
type turn struct {
	taken bool
	left  chan struct{} // closed when it is left; nil while nobody waits for that
}

func (t *turn) leave() {
	if t.left != nil {
		close(t.left)
	}
	*t = turn{}
}

// awaitTurn waits until no other goroutine sends, and returns the deletion that comes next. It is nil if the
// result is decided. If nobody sends, ctx is not looked at.
func (a *Acquisition) awaitTurn(ctx context.Context) (next *deletion, err error) {
	for {
		a.mu.Lock()
		t := &a.deleting
		if free := !t.taken; free || a.entry.ReleaseDecided() {
			defer a.mu.Unlock()
			if a.entry.ReleaseDecided() {
				return nil, nil
			}
			t.taken = true
			return a.nextDeletion(), nil
		}
		if t.left == nil {
			t.left = make(chan struct{})
		}
		left := t.left
		a.mu.Unlock()
		select {
		case <-left:
		case <-ctx.Done():
			return nil, cluster.EndOf(ctx)
		}
	}
}

// A deletion is what one deletion of its keys is made of.
type deletion struct {
	handoff, exact bool
	create, mod    int64 // the revisions that are compared
	successors     keys.Successors
}

// nextDeletion returns the next deletion, which is about to be sent. The caller holds the mutex, and has the
// turn.
func (a *Acquisition) nextDeletion() *deletion {
	fx := a.s.Step(&a.entry, state.DeleteSent{})
	return &deletion{handoff: fx.Handoff, exact: fx.Exact, create: a.entry.Own.Create, mod: a.entry.Mod, successors: a.entry.Successors}
}

// goneBefore returns the cause of a loss of keys that a release did not find.
func (a *Acquisition) goneBefore(r state.Remains) error {
	return fmt.Errorf("%w: %s, before its release", ErrKeyDeleted, a.of(r.Index))
}

// sendRelease sends one deletion of all keys.
func (a *Acquisition) sendRelease(ctx context.Context, d deletion, repeat cluster.Repeat) (ev state.DeleteAnswered, err error) {
	ev.Handoff, ev.Exact = d.handoff, d.exact
	kind, op := batch.Plain, "release"
	if d.handoff {
		kind, op = batch.Ordered, "hand off" // it puts a key of the queue
	}
	place, err := a.s.Releases(ctx, op)
	if err != nil {
		ev.Outcome = state.NotApplied
		return ev, err
	}
	resp, err := a.write(ctx, batch.Write{Op: op, Repeat: repeat, Kind: kind, Txn: a.releaseTxn(d)})
	place.Leave()
	ev.Outcome = outcomeOf(resp, err)
	switch {
	case ev.Outcome == state.Applied && !d.exact:
		for i := range a.owned() {
			if was := a.shown(i, txn.Answers(resp.Responses).Deleted(i)); was.Mod >= ev.Was.Mod {
				ev.Was = was
			}
		}
	case ev.Outcome == state.Refused:
		ev.Remains = a.remains(resp.Responses)
	}
	ev.Whole = a.isSet() && isRefusedAsAWhole(err)
	return ev, err
}

// outcomeOf classifies the result of a transaction.
func outcomeOf(resp *pb.TxnResponse, err error) state.Outcome {
	switch {
	case err == nil && resp.Succeeded:
		return state.Applied
	case err == nil:
		return state.Refused
	case cluster.OutcomeOf(err) == cluster.NotApplied:
		return state.NotApplied
	}
	return state.Unknown
}

// shown returns the key at index i as a delete, or a read with its value, showed it.
func (a *Acquisition) shown(i int, kv *mvccpb.KeyValue) state.OwnChanged {
	if kv == nil {
		return state.OwnChanged{}
	}
	return state.OwnChanged{Index: i, Create: kv.CreateRevision, Mod: kv.ModRevision, OnLease: kv.Lease == a.s.ID(), Value: kv.Value}
}

// explainRelease decides, by a separate read, a release whose keys had changed or were gone, or
// that was refused as a whole. The delete does not carry this read because it is seldom needed. If
// the server refuses a read of all keys of a set, explainRelease reads the session key and one key,
// which tells as much as many if all are gone, and if that is refused too, the session key alone.
// next is a bare deletion, if the keys are there.
func (a *Acquisition) explainRelease(ctx context.Context) (v state.Verdict, next *deletion, err error) {
	var session, own txn.Answers
	var rev int64
	for _, n := range []int{len(a.owned()), 1, 0} {
		t := &pb.TxnRequest{}
		key, owned := txn.Then(t, a.s.ReadKey()), txn.Then(t, a.ownKeys(txn.Stat)[:n]...)
		resp, err := a.s.Host().Cluster.Txn(ctx, cluster.Request{Op: "read why a release failed", Repeat: cluster.Always}, t)
		if err == nil {
			session, own, rev = key.In(resp), owned.In(resp), resp.Header.Revision
			break
		}
		if n == 0 || !a.isSet() || !isRefusedAsAWhole(err) {
			a.mu.Lock()
			a.deleting.leave()
			a.mu.Unlock()
			return state.Stop, nil, err // undecided: sending the delete again leads back here
		}
	}
	why := a.s.ValidateKey(session.KV(0), rev)
	ev := state.Explained{SessionEnded: why != nil, Remains: a.remains(own)}
	if why == nil {
		why = a.goneBefore(ev.Remains)
	}
	v, next = a.learns(ev, why)
	return v, next, nil
}

// remains returns what own, the answers to reads of some of the keys, show of them.
func (a *Acquisition) remains(own txn.Answers) (r state.Remains) {
	for i := range own {
		if kv := own.KV(i); etcdapi.CreateRevision(kv) == a.own().Create {
			r.There++
		} else {
			r.Gone, r.Index, r.Again = r.Gone+1, i, r.Again || kv != nil
		}
	}
	return r
}

// deleteInBackground continues the release in the background, at most once at a time.
func (a *Acquisition) deleteInBackground() {
	if a.pending.CompareAndSwap(false, true) {
		a.s.RemoveInBackground(func(ctx context.Context) (decided bool) {
			decided, _ = a.deleteKeys(ctx, nil)
			return decided
		})
	}
}
