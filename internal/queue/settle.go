package queue

import (
	"context"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/internal/backoff"
	"github.com/pawl-locks/pawl/internal/batch"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/etcdapi"
	"github.com/pawl-locks/pawl/internal/queue/state"
	"github.com/pawl-locks/pawl/internal/txn"
)

// settle decides whether an enqueue was applied whose answer was lost, or does not say it. It was
// applied if the key exists. If the outcome is NotApplied and err is nil, the enqueue may be sent again.
// Otherwise err ends the acquisition.
func (a *Acquisition) settle(ctx context.Context, lost error) (outcome state.Outcome, err error) {
	late := cluster.OutcomeOf(lost) != cluster.Answered
	if a.permit != nil {
		a.permit.settled = late
	}
	t := &pb.TxnRequest{}
	if late { // after this no late copy of the enqueue is applied, neither now nor after a release (rules A5, ML5)
		txn.Then(t, txn.Put(a.s.CancelKey(a.entry.Number()), nil, a.s.ID()))
	}
	read := txn.Then(t, a.ownKeys(txn.Stat)...)
	resp, err := a.findOut(ctx, t)
	if err != nil {
		return state.Unknown, fmt.Errorf("%w (settling it: %w)", lost, err)
	}
	own := read.In(resp)
	if put := first(own); put != nil { // one that somebody deleted and made again has a greater create revision
		a.apply(state.Settled{Own: state.Key{Name: a.Key(), Create: put.CreateRevision}, Others: a.keys[1:]}, nil)
		return state.Applied, a.missing(own, resp.Header.Revision)
	}
	a.apply(state.Settled{}, nil) // it can never be applied now
	if a.permit != nil {
		a.permit.settled = false // the next enqueue has another cancel key
	}
	if !late {
		return state.NotApplied, lost // the next one would get the same answer
	}
	return state.NotApplied, nil
}

// sendSettle sends t once it is its turn, because it puts a key as an enqueue does.
func (a *Acquisition) sendSettle(ctx context.Context, t *pb.TxnRequest) (*pb.TxnResponse, error) {
	place, err := a.s.Enqueues(ctx, "settle enqueue", 1)
	if err != nil {
		return nil, err
	}
	defer place.Leave()
	return a.write(ctx, batch.Write{Op: "settle enqueue", Repeat: cluster.Always, Kind: batch.Plain, Txn: t})
}

// missing ends the acquisition if one of its keys, as they were read at revision rev, is missing.
// They were put together, so somebody has deleted it.
func (a *Acquisition) missing(own txn.Answers, rev int64) error {
	for i := range a.owned() {
		if etcdapi.CreateRevision(own.KV(i)) != a.own().Create {
			a.apply(state.OwnDeleted{Index: i}, fmt.Errorf("%w: %s at revision %d", ErrKeyDeleted, a.of(i), rev))
			return a.Err()
		}
	}
	return nil
}

// ownKeys applies op to each of its keys.
func (a *Acquisition) ownKeys(op func(key string) *pb.RequestOp) (ops []*pb.RequestOp) {
	for _, key := range a.owned() {
		ops = append(ops, op(key))
	}
	return ops
}

// findOut sends the transaction that settles an enqueue until it is answered.
func (a *Acquisition) findOut(ctx context.Context, t *pb.TxnRequest) (*pb.TxnResponse, error) {
	for wait := backoff.Request(); ; {
		resp, err := a.sendSettle(ctx, t)
		switch {
		case err == nil:
			return resp, nil
		case cluster.IsLeaseNotFound(err):
			return nil, a.s.Gone(err.Error())
		case cluster.IsNoSpace(err), cluster.IsPermissionDenied(err), cluster.IsTooManyOps(err), cluster.EndOf(ctx) != nil:
			return nil, err
		}
		if err := a.pause(ctx, wait.Next()); err != nil {
			return nil, err
		}
	}
}
