package queue

import (
	"context"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/pawl-locks/pawl/internal/batch"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/etcdapi"
	"github.com/pawl-locks/pawl/internal/gate"
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
	if err := a.markReleased(as); err != nil {
		a.releaseRest()
		return err
	}
	if decided, err := a.outcome(); decided {
		return err
	}
	graced, cancel := cluster.WithGrace(ctx, cluster.Grace)
	defer cancel()
	err := a.deleteKeys(graced)
	if decided, lost := a.outcome(); decided && (lost != nil || !cluster.IsPermissionDenied(err)) {
		a.notifyReleased(nil)
		return lost
	}
	a.deleteInBackground()
	if ctx.Err() != nil {
		err = fmt.Errorf("%w (%v)", cluster.EndOf(ctx), err)
	}
	err = fmt.Errorf("%w: the release is pending: %w", cluster.ErrUnknown, err)
	a.notifyReleased(err)
	return err
}

// markReleased marks it as released, or returns why it was lost before.
func (a *Acquisition) markReleased(as error) error {
	if a.now().WasReleased() {
		return nil
	}
	if err := a.Err(); err != nil && !a.now().WasReleased() {
		return err
	}
	later := a.keeps()
	if fx := a.apply(state.Released{Later: later}, as); later && fx.End == state.GivenBack {
		a.notifyReleased(nil)
	}
	if a.now().WasReleased() {
		return nil
	}
	return a.Err()
}

// outcome returns the release's answer, once it is decided.
func (a *Acquisition) outcome() (decided bool, err error) {
	a.mu.Lock()
	decided = a.entry.ReleaseDecided()
	lost := a.entry.End != state.GivenBack
	a.mu.Unlock()
	if decided && lost {
		return true, a.ended.Load().err
	}
	return decided, nil
}

// deleteKeys tries to delete the key until the result is decided, an error shows that it cannot be
// deleted for now, or ctx ends. Only one goroutine at a time sends. Therefore a bare delete that
// finds no key means a loss, unless the answer of an earlier delete was lost.
func (a *Acquisition) deleteKeys(ctx context.Context) error {
	one := a.oneAtATime()
	if !one.Enter(ctx) {
		return cluster.EndOf(ctx)
	}
	defer one.Leave()
	if decided, _ := a.outcome(); decided {
		return nil
	}
	repeat := cluster.IfNotApplied // so that a lost answer is noticed
	for {
		fx := a.apply(state.DeleteSent{}, nil)
		ev, err := a.sendRelease(ctx, fx.Handoff, fx.Exact, repeat)
		ev.Handoff, ev.Exact, ev.Repeated, ev.Ended = fx.Handoff, fx.Exact, repeat == cluster.Always, ctx.Err() != nil
		var why error
		if ev.Remains.Gone > 0 {
			why = a.goneBefore(ev.Remains)
		}
		fx = a.apply(ev, why)
		switch fx.Verdict {
		case state.Finished:
			return nil
		case state.Lost:
			a.wasLost(fx)
			return nil
		case state.Explain:
			bare, unread := a.explainRelease(ctx)
			if unread != nil {
				return unread
			} else if !bare {
				return err
			}
		case state.Bare:
			if ev.Outcome == state.Unknown {
				repeat = cluster.Always
			}
		default:
			return err
		}
	}
}

// oneAtATime is what only one goroutine at a time is inside of.
func (a *Acquisition) oneAtATime() gate.Gate {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.deleting == (gate.Gate{}) {
		a.deleting = gate.New(1)
	}
	return a.deleting
}

// goneBefore returns the cause of a loss of keys that a release did not find.
func (a *Acquisition) goneBefore(r state.Remains) error {
	return fmt.Errorf("%w: %s, before its release", ErrKeyDeleted, a.of(r.Index))
}

// wasLost cleans up after a release that found a loss.
func (a *Acquisition) wasLost(fx state.Effects) {
	if fx.Rest {
		a.releaseRest()
	}
}

// sendRelease sends one deletion of all keys.
func (a *Acquisition) sendRelease(ctx context.Context, handoff, exact bool, repeat cluster.Repeat) (ev state.DeleteAnswered, err error) {
	kind, op := batch.Plain, "release"
	if handoff {
		kind, op = batch.Ordered, "hand off" // it puts a key of the queue
	}
	place, err := a.s.Releases(ctx, op)
	if err != nil {
		ev.Outcome = state.NotApplied
		return ev, err
	}
	resp, err := a.write(ctx, batch.Write{Op: op, Repeat: repeat, Kind: kind, Txn: a.releaseTxn(handoff, exact)})
	place.Leave()
	ev.Outcome = outcomeOf(resp, err)
	switch {
	case ev.Outcome == state.Applied && !exact:
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
// bare reports that the keys are there, so that a bare delete has to follow.
func (a *Acquisition) explainRelease(ctx context.Context) (bare bool, err error) {
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
			return false, err // undecided: sending the delete again leads back here
		}
	}
	why := a.s.ValidateKey(session.KV(0), rev)
	ev := state.Explained{SessionEnded: why != nil, Remains: a.remains(own)}
	if why == nil {
		why = a.goneBefore(ev.Remains)
	}
	fx := a.apply(ev, why)
	if fx.Verdict == state.Bare {
		return true, nil
	}
	if !fx.Remove {
		a.wasLost(fx)
	}
	return false, nil
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
			_ = a.deleteKeys(ctx)
			decided, _ = a.outcome()
			return decided
		})
	}
}
