package queue

import (
	"context"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/queue/state"
	"github.com/pawl-locks/pawl/internal/together"
	"github.com/pawl-locks/pawl/internal/txn"
)

// Release ends the hold at once, with as for Err from then on, and then deletes the key. nil:
// it was held until now, and nobody else had written to the key. An error that matches ErrLost:
// it was not. One that matches kv.ErrUnknown: the deletion is unconfirmed and continues in the
// background; another call tries again, and once it is decided every call returns the same
// answer. If ctx is done, Release still sends, and waits no longer than cluster.Grace. If
// Limits.AtLeast keeps the key for now, nothing is sent, and the key is deleted in the
// background.
func (a *Acquisition) Release(ctx context.Context, as error) error {
	if err := a.letGo(as); err != nil {
		a.freeRest()
		return err
	}
	if decided, err := a.outcome(); decided {
		return err
	}
	graced, cancel := cluster.WithGrace(ctx, cluster.Grace)
	defer cancel()
	err := a.free(graced)
	if decided, err := a.outcome(); decided {
		a.notifyReleased(nil)
		return err
	}
	a.freeInBackground()
	if ctx.Err() != nil {
		err = fmt.Errorf("%w (%v)", cluster.EndOf(ctx), err)
	}
	err = fmt.Errorf("%w: the release is pending: %w", cluster.ErrUnknown, err)
	a.notifyReleased(err)
	return err
}

// letGo marks it as released, or returns why it was lost before.
func (a *Acquisition) letGo(as error) error {
	if a.isGivenBack() {
		return nil
	}
	if err := a.Err(); err != nil && !a.isGivenBack() {
		return err
	}
	// Until the release is decided, a Handle lists the key for the session's next process to
	// delete.
	a.s.Reopen(a.n)
	until, later := a.keeps()
	if fx := a.apply(state.Released{Later: later}, as); later && fx.End == state.GivenBack {
		a.s.LeaveAt(a.n, until)
		a.notifyReleased(nil)
	}
	if a.isGivenBack() {
		return nil
	}
	return a.Err()
}

// isGivenBack reports whether a release has begun, even if that has since found a loss.
func (a *Acquisition) isGivenBack() bool {
	return read(a, (*state.Machine).WasReleased)
}

// outcome is the release's answer, once it is decided.
func (a *Acquisition) outcome() (decided bool, err error) {
	a.mu.Lock()
	decided = a.state.ReleaseDecided()
	lost := a.state.Ended() != state.GivenBack
	a.mu.Unlock()
	if decided && lost {
		return true, a.ended.Load().err
	}
	return decided, nil
}

// free tries to delete the key until the result is decided, an error shows that it cannot be
// deleted for now, or ctx ends. Only one goroutine at a time sends. Therefore a bare delete that
// finds no key means a loss, unless an earlier delete was sent whose answer was lost.
func (a *Acquisition) free(ctx context.Context) error {
	if !a.deleting.Enter(ctx) {
		return cluster.EndOf(ctx)
	}
	defer a.deleting.Leave()
	if decided, _ := a.outcome(); decided {
		return nil
	}
	repeat := cluster.IfNotApplied // so that a lost answer is noticed
	for {
		fx := a.apply(state.DeleteSent{}, nil)
		exact := fx.Exact && !a.isSet()
		ev, err := a.sendRelease(ctx, fx.Handoff, exact, repeat)
		ev.Handoff, ev.Repeated, ev.Ended = fx.Handoff, repeat == cluster.Always, ctx.Err() != nil
		var why error
		if ev.Partly {
			why = &detail{ErrKeyDeleted, a.of(ev.Missing) + ", before its release"}
		}
		switch a.apply(ev, why).Verdict {
		case state.Finished:
			a.s.Absent(a.n)
			return nil
		case state.Lost:
			a.s.Vanished(a.n)
			return nil
		case state.Explain:
			return a.explainRelease(ctx)
		case state.Bare:
			if ev.Outcome == state.Unknown {
				repeat = cluster.Always
			}
		default:
			return err
		}
	}
}

// sendRelease sends one deletion of all own keys.
func (a *Acquisition) sendRelease(ctx context.Context, handoff, exact bool, repeat cluster.Repeat) (ev state.DeleteAnswered, err error) {
	if a.isSet() {
		return a.releaseSet(ctx, repeat)
	}
	op := "release"
	if handoff {
		op = "hand off"
	}
	resp, err := a.write(ctx, together.Write{Op: op, Repeat: repeat, Kind: releaseKind(handoff), Txn: a.releaseTxn(handoff, exact)})
	ev.Outcome = outcomeOf(resp, err)
	switch {
	case ev.Outcome == state.Applied && !exact:
		ev.Was = a.shown(0, txn.Deleted(resp, 0))
	case ev.Outcome == state.Refused && (handoff || exact):
		ev.There = txn.KV(resp, 0).GetCreateRevision() == a.own().Create
	}
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

// shown is the own key at index i as a delete, or a read with its value, showed it.
func (a *Acquisition) shown(i int, kv *mvccpb.KeyValue) state.OwnChanged {
	if kv == nil {
		return state.OwnChanged{}
	}
	return state.OwnChanged{Index: i, Create: kv.CreateRevision, Mod: kv.ModRevision, OnLease: kv.Lease == a.s.ID(), Value: kv.Value}
}

// explainRelease decides a release whose key had changed or was gone, by a separate read; the
// delete itself does not carry this read because it is seldom needed.
func (a *Acquisition) explainRelease(ctx context.Context) error {
	reads := append([]*pb.RequestOp{a.s.ReadKey()}, a.ownKeys(txn.Stat)...)
	query := func(n int) (*pb.TxnResponse, error) {
		return a.s.Host().Cluster.Txn(ctx, cluster.Request{Op: "read why a release failed", Repeat: cluster.Always}, &pb.TxnRequest{Success: reads[:n]})
	}
	n := len(reads)
	resp, err := query(n)
	if cluster.IsTooManyOps(err) && n > 2 {
		n = 2 // for a set whose keys are all gone, one name tells as much as many
		resp, err = query(n)
	}
	if err != nil {
		return err // undecided: sending the delete again leads back here
	}
	why := a.s.ValidateKey(txn.KV(resp, 0), resp.Header.Revision)
	ev := state.Explained{SessionEnded: why != nil, There: first(resp, 1, n-1) != ""}
	if why == nil {
		why = &detail{ErrKeyDeleted, a.of(0) + ", before its release"}
	}
	a.apply(ev, why)
	a.s.Vanished(a.n)
	return nil
}

// freeInBackground continues the release in the background, at most once at a time.
func (a *Acquisition) freeInBackground() {
	if a.pending.CompareAndSwap(false, true) {
		a.s.Reopen(a.n)
		a.s.RemoveInBackground(&freeing{a})
	}
}

// freeing is a release in the background.
type freeing struct{ a *Acquisition }

// Remove implements session.Removal.
func (r *freeing) Remove(ctx context.Context) bool {
	_ = r.a.free(ctx)
	decided, _ := r.a.outcome()
	return decided
}
