package queue

import (
	"context"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/queue/state"
	"github.com/pawl-locks/pawl/internal/together"
	"github.com/pawl-locks/pawl/internal/txn"
)

// settle decides whether an enqueue whose answer was lost was applied: if its own key exists,
// it was. An error means that it is undecided, or that it was not applied and that another
// enqueue would not be either.
func (a *Acquisition) settle(ctx context.Context, lost error) error {
	if a.permit != nil {
		a.permit.settled = true
	}
	resp, err := a.findOut(ctx)
	if err != nil {
		return fmt.Errorf("%w (settling it: %w)", lost, err)
	}
	if create := a.putAt(resp, 1); create != 0 {
		a.s.Shown(a.n)
		a.apply(state.Settled{Own: state.Key{Name: a.Key(), Create: create}, Others: a.keys[1:]}, nil)
		return a.missing(resp, 1)
	}
	a.apply(state.Settled{}, nil)
	a.s.Settle(a.n) // it can never be applied now
	if a.permit != nil {
		a.permit.settled = false // the next enqueue has another cancel key
	}
	if cluster.IsTooLarge(lost) {
		return lost
	}
	return nil
}

// putAt is the create revision of its own keys, which the operations from first on read; 0:
// none exists. A key that somebody deleted and made again has a greater create revision.
func (a *Acquisition) putAt(resp *pb.TxnResponse, first int) (create int64) {
	for i := range a.owned() {
		if c := txn.KV(resp, first+i).GetCreateRevision(); c != 0 && (create == 0 || c < create) {
			create = c
		}
	}
	return create
}

// missing ends the acquisition if one of its own keys, which the operations from first on read,
// is missing: they were put together, so somebody has deleted it.
func (a *Acquisition) missing(resp *pb.TxnResponse, first int) error {
	for i := range a.owned() {
		if txn.KV(resp, first+i).GetCreateRevision() != a.own().Create {
			a.apply(state.OwnDeleted{Place: i}, &detail{ErrKeyDeleted, fmt.Sprintf("%s at revision %d", a.of(i), resp.Header.Revision)})
			return a.Err()
		}
	}
	return nil
}

// ownKeys applies op to each of its own keys.
func (a *Acquisition) ownKeys(op func(key string) *pb.RequestOp) (ops []*pb.RequestOp) {
	for _, key := range a.owned() {
		ops = append(ops, op(key))
	}
	return ops
}

// findOut puts the cancel key and reads its own keys, in one transaction. After it no late copy
// of the enqueue is applied, neither now nor after a release (rules A5, ML5).
func (a *Acquisition) findOut(ctx context.Context) (*pb.TxnResponse, error) {
	for wait := newBackoff(); ; {
		resp, err := a.write(ctx, together.Write{Op: "settle enqueue", Repeat: cluster.Always, Kind: together.Plain, Txn: &pb.TxnRequest{
			Success: append([]*pb.RequestOp{txn.Put(a.s.CancelKey(a.n), nil, a.s.ID())}, a.ownKeys(txn.Stat)...),
		}})
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
