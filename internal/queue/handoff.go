package queue

import (
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/queue/state"
	"github.com/pawl-locks/pawl/internal/txn"
)

// A handoff passes a queue on without a query. A query for a position reads also
// who waits behind it. That order is final: a key that is created later comes after all
// of them. Its release deletes its own key and, if the successor still has the create
// revision that was seen, puts a handoff on it, all in one transaction, which shows that
// the predecessor was there until it released and that the successor was there then.
// The successor's watch of its own key shows it that it holds, without a request
// (state/owner.go).
//
// A handoff also carries who comes after, so that a queue is queried once in
// keys.MaxSuccessors handoffs: see keys.Handoff.
//
// Only keys whose value begins with keys.LockMark are handed off to: a lock's, in pawl's
// layout. Everybody else, and a newcomer to a queue about which nothing is known, is
// left to the ordinary way.

// releaseTxn deletes the own key if it is the one that was acquired, and shows it as it
// was. With handoff, it also puts a handoff on the successor, and does neither unless that
// is there as it was seen; without, it is nothing but a delete, so that it works on a full
// disk. Doing it twice is harmless.
func (a *Acquisition) releaseTxn(handoff bool) *pb.TxnRequest {
	own, key := a.own(), []byte(a.Key())
	t := txn.New()
	t.Compare = append(t.Compare, txn.CreateIs(key, own.Create))
	t.Success = append(t.Success, txn.DeletePrevious(key))
	if a.permit != nil && a.permit.cancels {
		t.Success = append(t.Success, txn.Delete(a.s.CancelKey(a.n))) // which its take has put
	}
	if a.named {
		t.Success = append(t.Success, txn.Delete(a.s.OwnerKey(a.n)))
	}
	if !handoff {
		return t
	}
	if next, rest, ok := read(a, (*state.Acquisition).Successors).First(); ok {
		successor := slices.Concat([]byte(a.queue.Prefix), next.Name)
		_, name := keys.Split(a.Key())
		t.Compare = append(t.Compare, txn.CreateIs(successor, next.Create))
		t.Success = append(t.Success, txn.PutKeepingLease(successor, next.HandedOff(name, own.Create, rest)))
	}
	return t
}
