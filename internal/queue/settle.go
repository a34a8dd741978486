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

// settle decides whether an enqueue whose answer was lost was applied: if the own key is
// there it was, and it is ours. An error means that it was not applied and would not be
// under another name either, or that it is undecided.
func (a *Acquisition) settle(ctx context.Context, lost error) error {
	own, err := a.findOut(ctx)
	if err != nil {
		return fmt.Errorf("%w (settling it: %w)", lost, err)
	}
	if own.Create != 0 {
		a.s.Shown(a.n)
	}
	a.apply(state.Settled{Own: own}, nil)
	if own.Create != 0 {
		return nil
	}
	a.s.Settle(a.n) // cancelled for good
	if cluster.IsTooLarge(lost) {
		return lost
	}
	return nil
}

// findOut puts the cancel key and reads the own key, in one transaction: no late copy of
// the enqueue is applied after it, neither now nor when the key is released (rule A5).
func (a *Acquisition) findOut(ctx context.Context) (own state.Key, err error) {
	for wait := newBackoff(); ; {
		resp, err := a.write(ctx, together.Write{Op: "settle enqueue", Repeat: cluster.Always, Kind: together.Plain, Txn: &pb.TxnRequest{
			Success: []*pb.RequestOp{txn.Put(a.s.CancelKey(a.n), nil, a.s.ID()), txn.Look(a.key)},
		}})
		switch {
		case err == nil:
			return state.Key{Name: a.key, Create: txn.KV(resp, 1).GetCreateRevision()}, nil
		case cluster.IsLeaseNotFound(err):
			return state.Key{}, a.s.Gone(err.Error())
		case cluster.IsNoSpace(err), cluster.IsPermissionDenied(err), cluster.EndOf(ctx) != nil:
			return state.Key{}, err
		}
		if err := a.pause(ctx, wait.Next()); err != nil {
			return state.Key{}, err
		}
	}
}
