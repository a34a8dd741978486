package queue

import (
	"context"
	"fmt"
	"sync/atomic"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/pawl-locks/pawl/internal/backoff"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/queue/state"
	"github.com/pawl-locks/pawl/internal/together"
	"github.com/pawl-locks/pawl/internal/txn"
	"github.com/pawl-locks/pawl/internal/watcher"
)

// What only a semaphore needs (rules SM1 to SM4). Its acquisitions queue at a turnstile, which
// is a queue like any other, and the first one there takes a slot: see state/slots.go.

// NewSemaphore checks name and limit and makes the queue of the semaphore.
func NewSemaphore(namespace, name string, limit int) (Queue, error) {
	if err := CheckSemaphore(name, limit); err != nil {
		return Queue{}, err
	}
	q, err := New(namespace, name, false)
	q.Limit = limit
	return q, err
}

// CheckSemaphore reports what is wrong with a semaphore's name or limit.
func CheckSemaphore(name string, limit int) error {
	switch {
	case limit < 1 || limit > keys.MaxLimit:
		return fmt.Errorf("the limit is %d, want 1 to %d", limit, keys.MaxLimit)
	case len(name) > keys.MaxSemaphore:
		return fmt.Errorf("the name has %d bytes, want at most %d for a semaphore", len(name), keys.MaxSemaphore)
	}
	return keys.CheckName(name, false)
}

// A permit is what an acquisition of a semaphore has beside others.
type permit struct {
	slot atomic.Pointer[[]string] // the key of the slot that it holds, which is its only one then; nil: it waits, or was resumed with it

	settled bool // its cancel key was put to settle the enqueue, and is to stay
	cancels bool // its takes put the cancel key, to be deleted with the slot's
}

// makePermit makes a an acquisition of its semaphore, before anything else is done with it.
func (a *Acquisition) makePermit() {
	if a.queue.Limit > 0 {
		a.permit = &permit{}
	}
}

// has notes the key of the slot that it holds.
func (p *permit) has(key string) { p.slot.Store(&[]string{key}) }

// Slot is the slot of a semaphore that it holds, from 0; false: it holds none.
func (a *Acquisition) Slot() (slot int, ok bool) {
	if a.permit == nil {
		return 0, false
	}
	k, ok := keys.ParseQueueKey(a.Key())
	return k.Slot, ok && k.Form == keys.Slot
}

// isHeldAs reports whether a key of this form holds the name.
func (q Queue) isHeldAs(f keys.Form) bool {
	if q.Limit > 0 {
		return f == keys.Slot
	}
	return f <= keys.Shared
}

// slots reads the keys of the slots that are held. As many as there are slots are enough:
// then none is free.
func (q Queue) slots() *pb.RequestOp {
	from, to := keys.SlotsRange(q.Prefix)
	return txn.Between(from, to, int64(q.Limit))
}

// slotsInTurn reads the slots if nobody is in the turnstile, of those that an enqueue finds
// there (rule SM2).
func (q Queue) slotsInTurn() *pb.RequestOp {
	return txn.Nested(&pb.TxnRequest{Compare: q.noneInTheWay(), Success: []*pb.RequestOp{q.slots()}})
}

// slotsAndKind reads the slots, and whether a key of another kind is there.
func (q Queue) slotsAndKind() []*pb.RequestOp {
	return append([]*pb.RequestOp{q.slots()}, q.firstOfOtherKind()...)
}

// taken are the slots whose keys are kvs. A key that is not pawl's is logged: nobody takes a
// slot beside it.
func (a *Acquisition) taken(kvs []*mvccpb.KeyValue) []state.Taken {
	all := make([]state.Taken, len(kvs))
	for i, kv := range kvs {
		k, ok := a.queue.Parse(string(kv.Key))
		if !ok {
			k.Slot = -1
			a.s.Host().Cluster.Logger().Warn("waiting for a key that is not pawl's", "name", a.queue.Name, "key", string(kv.Key), "create_revision", kv.CreateRevision)
		}
		all[i] = state.Taken{Slot: k.Slot, Limit: k.Limit}
	}
	return all
}

// takenInTurn is what slotsInTurn, the last operation of an enqueue, has read; false: somebody
// was in the turnstile, and nothing was read.
func (a *Acquisition) takenInTurn(resp *pb.TxnResponse) ([]state.Taken, bool) {
	slots := txn.Answer(resp, len(resp.Responses)-1)
	if !slots.Succeeded {
		return nil, false
	}
	return a.taken(txn.KVs(slots, 0)), true
}

// noneFree is the error of a try that may not go on, by what slotsAndKind has read from the
// i-th operation on; nil: a slot is free.
func (a *Acquisition) noneFree(resp *pb.TxnResponse, i int) error {
	if err := a.whichOtherKind(resp, i+1); err != nil {
		return err
	}
	taken := a.taken(txn.KVs(resp, i))
	if _, ok := state.Free(a.queue.Limit, taken); ok {
		return nil
	}
	return &detail{ErrBusy, fmt.Sprintf("no slot is free: %d of %d are held", len(taken), a.queue.Limit)}
}

// querySlots makes a query one about the slots too, which are of interest to the first in the
// turnstile, and about those that it may have taken already.
func (a *Acquisition) querySlots(t *pb.TxnRequest) {
	t.Success = append(t.Success, a.queue.slotsAndKind()...)
	for _, key := range a.tried() {
		t.Failure = append(t.Failure, txn.Stat(key))
	}
}

// tried are the keys of the slots that it may have taken.
func (a *Acquisition) tried() (all []string) {
	for _, slot := range read(a, (*state.Acquisition).Tried) {
		all = append(all, a.slotKey(slot))
	}
	return all
}

// slotKey is the key of a slot that it holds, or tries to.
func (a *Acquisition) slotKey(slot int) string {
	return keys.QueueKey{Lease: a.s.ID(), N: a.n, Form: keys.Slot, Slot: slot, Limit: a.queue.Limit}.In(a.queue.Prefix)
}

// take takes the slot that was seen to be free. What became of it, unless the answer shows
// that, is for a query to find out.
func (a *Acquisition) take(ctx context.Context, value []byte, wait *backoff.Backoff) error {
	slot := read(a, (*state.Acquisition).Slot)
	key := a.slotKey(slot)
	a.permit.cancels = !a.permit.settled
	if err := a.s.Add(a.n, key, a.permit.cancels); err != nil { // from now on it is removed with the other
		return err
	}
	resp, err := a.write(ctx, together.Write{Op: "take slot", Kind: together.Ordered, Txn: a.takeTxn(slot, key, value)})
	ev := state.TakeAnswered{Outcome: outcomeOf(resp, err)}
	if ev.Outcome == state.Applied {
		ev.Own = state.Key{Name: key, Create: txn.PutRevision(resp, 0)}
	}
	a.apply(ev, nil)
	switch {
	case ev.Outcome == state.Applied:
		return nil
	case cluster.IsLeaseNotFound(err):
		return a.s.Gone(err.Error())
	case err != nil && (cluster.EndOf(ctx) != nil || cluster.IsFinal(err) || cluster.IsNoSpace(err)):
		return err
	}
	return a.pause(ctx, wait.Next())
}

// takeTxn puts the key of a slot and deletes the own one in the turnstile, if that is there,
// the session is as we know it, nobody has the slot, and no lock or election has come to
// the name (rules SM1, SM5). No copy of it is applied a second time, for the first deletes what
// it compares. The cancel key stands in for that against copies of the enqueue, until the
// slot is given back, or for good where it settled the enqueue.
func (a *Acquisition) takeTxn(slot int, key string, value []byte) *pb.TxnRequest {
	same, _ := a.s.Same()
	own := a.own()
	from, to := keys.SlotRange(a.queue.Prefix, slot)
	t := &pb.TxnRequest{
		Compare: a.queue.noneOfOtherKind([]*pb.Compare{txn.CreateIs(own.Name, own.Create), same, txn.NoneBetween(from, to)}),
		Success: []*pb.RequestOp{txn.Put(key, value, a.s.ID()), txn.Delete(own.Name)},
	}
	if a.permit.cancels {
		t.Success = append(t.Success, txn.Put(a.s.CancelKey(a.n), nil, a.s.ID()))
	}
	return t
}

// foundTake takes in an answer that shows that the own key in the turnstile is gone: the
// operations from the first on have read the slots that it may have taken.
func (a *Acquisition) foundTake(resp *pb.TxnResponse, first int) error {
	ev := state.TakeFound{}
	for i, key := range a.tried() {
		if kv := txn.KV(resp, first+i); kv != nil {
			ev.Own = state.Key{Name: key, Create: kv.CreateRevision}
		}
	}
	if a.apply(ev, &detail{ErrKeyDeleted, fmt.Sprintf("%s at revision %d", a.of(0), resp.Header.Revision)}); ev.Own.Create > 0 {
		return nil
	}
	return a.Err()
}

// followSlots watches the deletions of slots, from revision from on.
func (a *Acquisition) followSlots(from int64) {
	begin, end := keys.SlotsRange(a.queue.Prefix)
	w := a.s.Host().Watches.WatchDeletions(string(begin), string(end), from, a.slotsChanged)
	a.keep(w, &a.preWatch, a.state.FollowsSlots)
}

// slotsChanged is called with the deletions of slots.
func (a *Acquisition) slotsChanged(u watcher.Update) {
	for _, ev := range u.Events {
		if ev.Deleted {
			a.apply(state.SlotFreed{Revision: ev.ModRevision}, nil)
		}
	}
	if u.Err != nil || u.Compacted > 0 {
		a.apply(state.SlotsWatchEnded{Missed: u.Compacted > 0}, nil)
	}
}
