package queue

import (
	"context"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/internal/backoff"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/queue/state"
	"github.com/pawl-locks/pawl/internal/together"
	"github.com/pawl-locks/pawl/internal/txn"
)

// settle decides whether an enqueue was applied whose answer was lost, or does not say it: if its
// own key exists, it was. An error means that it is undecided, or that it was not applied and that
// another enqueue would not be either.
func (a *Acquisition) settle(ctx context.Context, lost error) error {
	late := cluster.OutcomeOf(lost) != cluster.Answered
	if a.permit != nil {
		a.permit.settled = late
	}
	resp, err := a.findOut(ctx, late)
	if err != nil {
		return fmt.Errorf("%w (settling it: %w)", lost, err)
	}
	if create := a.putAt(resp, 1); create != 0 {
		a.s.Answered(a.n)
		first := a.settledFirst(resp, create)
		a.apply(state.Settled{Own: state.Key{Name: a.Key(), Create: create}, Others: a.keys[1:], First: first}, nil)
		if first {
			a.apply(state.Answered{Found: true, Revision: resp.Header.Revision}, nil)
		}
		return a.missing(resp, 1)
	}
	a.apply(state.Settled{}, nil)
	a.s.Absent(a.n) // it can never be applied now
	if a.permit != nil {
		a.permit.settled = false // the next enqueue has another cancel key
	}
	if !late {
		return lost // the next one would be answered alike
	}
	return nil
}

// settledFirst reports whether the answer of findOut is evidence that its own key, created at
// create, is the owner: the session key is unchanged, and its own, which nobody has written to, is the
// first-created key of the queue, alone at its create revision (rules A2, G3). Otherwise a query decides.
func (a *Acquisition) settledFirst(resp *pb.TxnResponse, create int64) bool {
	if !a.isOrdinary() {
		return false
	}
	_, mod := a.s.Key()
	kvs := txn.KVs(resp, 3)
	return txn.KV(resp, 2).GetModRevision() == mod &&
		len(kvs) > 0 && string(kvs[0].Key) == a.Key() && kvs[0].ModRevision == create && (len(kvs) == 1 || kvs[1].CreateRevision > create)
}

// missing ends the acquisition if one of its own keys, which the operations from first on read,
// is missing: they were put together, so somebody has deleted it.
func (a *Acquisition) missing(resp *pb.TxnResponse, first int) error {
	for i := range a.owned() {
		if txn.KV(resp, first+i).GetCreateRevision() != a.own().Create {
			a.apply(state.OwnDeleted{Index: i}, &detail{ErrKeyDeleted, fmt.Sprintf("%s at revision %d", a.of(i), resp.Header.Revision)})
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
// of the enqueue is applied, neither now nor after a release (rules A5, ML5). If the enqueue was
// answered, there is no late copy (late is false), and it only reads. The transaction also reads
// whether its own key is first, because most enqueues find nobody in their way.
func (a *Acquisition) findOut(ctx context.Context, late bool) (*pb.TxnResponse, error) {
	for wait := backoff.Request(); ; {
		t := &pb.TxnRequest{
			Success: append([]*pb.RequestOp{txn.Put(a.s.CancelKey(a.n), nil, a.s.ID())}, a.ownKeys(txn.Stat)...),
		}
		if !late {
			t.Success[0] = a.s.ReadKey()
		}
		if a.isOrdinary() {
			t.Success = append(t.Success, a.s.ReadKey(), txn.FirstUnder(a.queue.Prefix, 2))
		}
		resp, err := a.write(ctx, together.Write{Op: "settle enqueue", Repeat: cluster.Always, Kind: together.Plain, Txn: t})
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
