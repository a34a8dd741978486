package queue

import (
	"context"
	"fmt"
	"sync/atomic"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/pawl-locks/pawl/internal/backoff"
	"github.com/pawl-locks/pawl/internal/batch"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/queue/state"
	"github.com/pawl-locks/pawl/internal/session"
	"github.com/pawl-locks/pawl/internal/txn"
	"github.com/pawl-locks/pawl/internal/watcher"
)

// This file holds what only a semaphore needs (rules SM1 to SM4). Its acquisitions queue at a
// turnstile, which is a queue like any other, and the first one there takes a slot (see
// state/slots.go).

// A permit is what only an acquisition of a semaphore has.
type permit struct {
	slot atomic.Pointer[[]string] // the key of the slot that it took, now its only key; nil if it waits, or was resumed

	settled bool // its cancel key was put to settle the enqueue, and stays
	cancels bool // its takes put the cancel key, which is deleted with the slot's key
}

// setSlot records the key of the slot that it holds.
func (p *permit) setSlot(key string) { p.slot.Store(&[]string{key}) }

// Slot returns the semaphore's slot that it holds, counted from 0, or -1 if it holds none.
func (a *Acquisition) Slot() int {
	if a.permit != nil {
		if k, ok := keys.ParseQueueKey(a.Key()); ok && k.Form == keys.Slot {
			return k.Slot
		}
	}
	return -1
}

// isHeldAs reports whether a key of this form can hold the name.
func (q Queue) isHeldAs(f keys.Form) bool {
	if q.Limit > 0 {
		return f == keys.Slot
	}
	return f <= keys.Shared
}

// slots reads the keys of held slots. It reads at most as many as there are slots, because that
// many show that none is free.
func (q Queue) slots() *pb.RequestOp {
	prefix := keys.SlotsPrefix(q.Prefix)
	return txn.Between([]byte(prefix), txn.PrefixEnd(prefix), int64(q.Limit))
}

// slotsIfFirst reads the slots, for an enqueue that finds nobody in the turnstile (rule SM2).
func (q Queue) slotsIfFirst() *pb.RequestOp {
	return txn.Nested(&pb.TxnRequest{Compare: q.noConflicts(), Success: []*pb.RequestOp{q.slots()}})
}

// taken returns the slots whose keys are kvs. It logs a key that is not pawl's: while it exists
// nobody takes a slot.
func (a *Acquisition) taken(kvs []*mvccpb.KeyValue) []state.Taken {
	all := make([]state.Taken, len(kvs))
	for i, kv := range kvs {
		k, ok := a.queues[0].Parse(string(kv.Key))
		if !ok {
			k.Slot = -1
			a.s.Host().Cluster.Logger().Warn("waiting for a key that is not pawl's", "name", a.queues[0].Name, "key", string(kv.Key), "create_revision", kv.CreateRevision)
		}
		all[i] = state.Taken{Slot: k.Slot, Limit: k.Limit}
	}
	return all
}

// takenIfFirst returns what slotsIfFirst, the last operation of an enqueue, read. It returns false if
// somebody was in the turnstile, so that nothing was read.
func (a *Acquisition) takenIfFirst(resp *pb.TxnResponse) ([]state.Taken, bool) {
	slots := txn.Answers(resp.Responses).Nested(len(resp.Responses) - 1)
	if !slots.GetSucceeded() {
		return nil, false
	}
	return a.taken(txn.KVs(slots, 0)), true
}

// noneFree returns the error of a try that finds all slots held, or nil if a slot is free. read is
// the answer of slots.
func (a *Acquisition) noneFree(read txn.Answers) error {
	taken := a.taken(read.KVs(0))
	if _, ok := state.Free(a.queues[0].Limit, taken); ok {
		return nil
	}
	return fmt.Errorf("%w: no slot is free: %d of %d are held", ErrBusy, len(taken), a.queues[0].Limit)
}

// querySlots adds reads of slots to a query: the held ones, which the first in the turnstile has to
// know, and those that it may have taken already.
func (a *Acquisition) querySlots(q *query) {
	q.slots = txn.Then(q.txn, a.queues[0].slots())
	var tried []*pb.RequestOp
	for _, key := range a.tried() {
		tried = append(tried, txn.Stat(key))
	}
	q.tried = txn.Else(q.txn, tried...)
}

// tried returns the keys of the slots that it may have taken.
func (a *Acquisition) tried() (all []string) {
	for _, slot := range ask(a, (*session.Entry).Tried) {
		all = append(all, a.slotKey(slot))
	}
	return all
}

// slotKey returns the key of a slot that it holds or tries to take.
func (a *Acquisition) slotKey(slot int) string {
	return keys.QueueKey{Lease: a.s.ID(), N: a.entry.Number(), Form: keys.Slot, Slot: slot, Limit: a.queues[0].Limit}.In(a.queues[0].Prefix)
}

// take takes the slot that was free in the last answer. If its own answer does not show the result,
// a query finds it out.
func (a *Acquisition) take(ctx context.Context, value []byte, wait *backoff.Backoff) error {
	slot := ask(a, (*session.Entry).Slot)
	key := a.slotKey(slot)
	a.permit.cancels = !a.permit.settled
	if err := a.s.Add(&a.entry, key, a.permit.cancels); err != nil { // it is removed together with the turnstile key now
		return err
	}
	resp, err := a.write(ctx, batch.Write{Op: "take slot", Kind: batch.Ordered, Txn: a.takeTxn(slot, key, value)})
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

// takeTxn puts the key of a slot and deletes the turnstile key, if the turnstile key exists, the
// session key is unchanged, and nobody has the slot (rule SM1). A second copy is never applied,
// because the first deletes what both compare. The cancel key protects in the same way against late
// copies of the enqueue, until the slot is released, or for good if it was put to settle the
// enqueue.
func (a *Acquisition) takeTxn(slot int, key string, value []byte) *pb.TxnRequest {
	own := a.own()
	t := &pb.TxnRequest{
		Compare: []*pb.Compare{txn.CreateIs(own.Name, own.Create), a.s.Same(), txn.NoneUnder(keys.SlotPrefix(a.queues[0].Prefix, slot))},
		Success: []*pb.RequestOp{txn.Put(key, value, a.s.ID()), txn.Delete(own.Name)},
	}
	if a.permit.cancels {
		t.Success = append(t.Success, txn.Put(a.s.CancelKey(a.entry.Number()), nil, a.s.ID()))
	}
	return t
}

// foundTake processes an answer, at revision rev, that shows that its turnstile key is gone, and
// which of the slots that it may have taken have its key.
func (a *Acquisition) foundTake(tried txn.Answers, rev int64) error {
	ev := state.TakeFound{}
	for kv := range tried.All() {
		ev.Own = state.Key{Name: string(kv.Key), Create: kv.CreateRevision}
	}
	if a.apply(ev, fmt.Errorf("%w: %s at revision %d", ErrKeyDeleted, a.of(0), rev)); ev.Own.Create > 0 {
		return nil
	}
	return a.Err()
}

// followSlots watches the deletions of slots, starting at revision from.
func (a *Acquisition) followSlots(from int64) {
	prefix := keys.SlotsPrefix(a.queues[0].Prefix)
	w := a.s.Host().Watches.WatchDeletionsNow(prefix, string(txn.PrefixEnd(prefix)), from, func(u watcher.Update) { a.slotsChanged(from, u) })
	a.keep(w, &a.watches.predecessor, func() bool { return a.entry.FollowsSlots() }) // not a method value, which copies the state now
}

// slotsChanged is called with the deletions of slots, starting at revision from.
func (a *Acquisition) slotsChanged(from int64, u watcher.Update) {
	if u.Created > 0 {
		a.created(ahead, from, u.Created)
	}
	for _, ev := range u.Events {
		if ev.Deleted {
			a.apply(state.SlotFreed{Revision: ev.ModRevision}, nil)
		}
	}
	if u.Err != nil || u.Compacted > 0 {
		a.apply(state.SlotsWatchEnded{Missed: u.Compacted > 0}, nil)
	}
}
