package queue

import (
	"bytes"
	"context"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/etcdapi"
	"github.com/pawl-locks/pawl/internal/queue/state"
	"github.com/pawl-locks/pawl/internal/txn"
)

// Rewrite puts a new value on the acquisition's key, which keeps its create revision and its
// position. Calls must be made one at a time. The put compares the create and the modification
// revision. Therefore a delayed copy of an older value can never overwrite a newer one, and a value
// is put once however often it is sent. Rewrite returns nil if the value was put while the lock was
// held. A read settles a lost answer, in this call or the next; until then the error matches
// kv.ErrUnknown.
func (a *Acquisition) Rewrite(ctx context.Context, value []byte) error {
	defer a.apply(state.RewriteEnded{}, nil)
	err := a.rewrite(ctx, bytes.Clone(value))
	if lost := a.Err(); err != nil && lost != nil {
		return lost
	}
	return err
}

func (a *Acquisition) rewrite(ctx context.Context, value []byte) error {
	if err := a.Err(); err != nil {
		return err
	}
	if a.apply(state.Rewriting{Value: value}, nil).Verdict == state.Explain {
		if err := a.readOwn(ctx, "read value"); err != nil {
			return fmt.Errorf("%w: of an earlier value: %w", cluster.ErrUnknown, err)
		}
	}
	var lost error // the last lost answer of this call
	for {
		fx := a.apply(state.WriteSent{}, nil)
		if fx.Verdict != state.Again { // it has ended, or a late copy of the value was applied
			return a.Err()
		}
		w := a.writeOf(value, fx.Mod)
		resp, err := a.s.Host().Cluster.Txn(ctx, cluster.Request{Op: "write value"}, w.txn)
		if cluster.IsLeaseNotFound(err) {
			return a.s.Gone(err.Error())
		}
		ev := a.rewritten(ctx, w, resp, err, &lost)
		_ = a.Err() // a deadline that has passed ends the acquisition now
		switch a.apply(ev, nil).Verdict {
		case state.Finished, state.Lost:
			return a.Err()
		case state.Stop:
			return err
		case state.Doubt:
			return inDoubt(lost, err)
		}
	}
}

// rewritten returns the event of a put's result. If the answer was lost it reads the key, and lost
// becomes the reason.
func (a *Acquisition) rewritten(ctx context.Context, w valueWrite, resp *pb.TxnResponse, err error, lost *error) state.WriteAnswered {
	ev := state.WriteAnswered{Outcome: outcomeOf(resp, err), Ended: ctx.Err() != nil}
	switch ev.Outcome {
	case state.Applied:
		ev.Mod = etcdapi.ModRevision(w.put.In(resp).KV(0))
	case state.Refused: // an earlier copy of this value or an older one was applied, or the lock is lost
		a.takeIn(resp, w.ownRead)
	case state.Unknown:
		*lost = err
		if unread := a.readOwn(ctx, "read value"); unread != nil {
			*lost, ev.Unread = fmt.Errorf("%w (reading it: %w)", err, unread), true
		}
		ev.Ended = ctx.Err() != nil || cluster.IsNoSpace(err)
	}
	return ev
}

// inDoubt returns the error of a call whose value may have been applied, or may be applied later,
// because an answer was lost in this call or, if lost is nil, in an earlier call with the same
// value. err is the error of the last put.
func inDoubt(lost, err error) error {
	switch {
	case lost == nil:
		return fmt.Errorf("%w: of an earlier copy of the value (sent again: %w)", cluster.ErrUnknown, err)
	case err != nil && cluster.OutcomeOf(err) == cluster.NotApplied:
		return fmt.Errorf("%w (sent again: %w)", lost, err)
	}
	return lost
}

// A valueWrite puts a value on the acquisition's key.
type valueWrite struct {
	txn     *pb.TxnRequest
	put     txn.Ops // reads the key once it was put
	ownRead         // if one of the comparisons failed
}

// ownRead are reads of the session key and, with their values, of the acquisition's keys.
type ownRead struct{ session, own txn.Ops }

// writeOf puts value if the key's modification revision is mod.
func (a *Acquisition) writeOf(value []byte, mod int64) (w valueWrite) {
	session, sessionMod := a.s.Key()
	own := a.own()
	w.txn = &pb.TxnRequest{
		Compare: []*pb.Compare{txn.CreateIs(own.Name, own.Create), txn.ModIs(own.Name, mod), txn.ModIs(session, sessionMod)},
		Success: []*pb.RequestOp{txn.Put(own.Name, value, a.s.ID())},
	}
	w.put = txn.Then(w.txn, txn.Stat(own.Name))
	w.ownRead = ownRead{txn.Else(w.txn, txn.Stat(session)), txn.Else(w.txn, txn.Get(own.Name))}
	return w
}

// Confirm reads, linearizably, whether its keys and the session key are unchanged. It returns nil
// if they were, at some moment during the call. An answer that they are not ends the acquisition; a
// missing answer does not.
func (a *Acquisition) Confirm(ctx context.Context) error {
	if err := a.Err(); err != nil {
		return err
	}
	err := a.readOwn(ctx, "confirm")
	if lost := a.Err(); err == nil || lost != nil {
		return lost
	}
	return a.explain(err)
}

// readOwn reads its keys and applies what it finds.
func (a *Acquisition) readOwn(ctx context.Context, op string) error {
	session, _ := a.s.Key()
	t := &pb.TxnRequest{}
	read := ownRead{txn.Then(t, txn.Stat(session)), txn.Then(t, a.ownKeys(txn.Get)...)}
	resp, err := a.s.Host().Cluster.Txn(ctx, cluster.Request{Op: op, Repeat: cluster.Always}, t)
	if err == nil {
		a.takeIn(resp, read)
	}
	return err
}

// readInBackground reads whether a change of the acquisition's key is a handoff, or a write of ours
// whose answer was lost and whose caller has returned.
func (a *Acquisition) readInBackground() {
	read := func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
		defer cancel()
		_ = a.readOwn(ctx, "read value") // if it failed, the next renewal reads again
		a.apply(state.ReadEnded{}, nil)
	}
	if !a.s.Go("the value of "+a.Key(), read) {
		a.apply(state.ReadEnded{}, nil)
	}
}

// takeIn applies what an answer shows of the session key and, with their values, of the
// acquisition's keys: unchanged, rewritten with a value in doubt, changed by a handoff, or lost.
func (a *Acquisition) takeIn(resp *pb.TxnResponse, read ownRead) {
	if a.s.ValidateKey(read.session.In(resp).KV(0), resp.Header.Revision) != nil {
		return
	}
	own := read.own.In(resp)
	for i := range a.owned() {
		kv := own.KV(i)
		if kv == nil || kv.CreateRevision != a.own().Create {
			a.apply(state.OwnDeleted{Index: i}, nil)
			return
		}
		a.apply(a.shown(i, kv), nil)
	}
}
