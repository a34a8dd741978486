package queue

import (
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/txn"
)

// A handoff passes a queue to the successor without a query. A query also reads which waiters come
// next. Their order is final, because a key that is created later comes after all of them. The
// release deletes the holder's key and, if the successor's still has the create revision that was
// read, puts a handoff on it, all in one transaction. The transaction shows that the predecessor
// existed until it released, and that the successor existed then. The successor learns from the
// watch of its own key that it holds, without a request (state/owner.go).
//
// A handoff also carries the list of the waiters that come after, so a queue is queried only once
// in keys.MaxSuccessors handoffs (see keys.Handoff).
//
// Only the keys of exclusive locks in pawl's layout receive handoffs. Their names and values show
// that (keys.NewSuccessors). All other keys, and waiters that nothing was read about, query as
// usual.

// releaseTxn deletes the acquisition's keys if their create revision is unchanged. The answer
// contains the keys as they were, which shows whether somebody else wrote to one. With exact it
// compares the modification revision instead. Every write to a key changes that, so if it is
// unchanged nobody else has written. With handoff it also puts a handoff on the successor's key, and
// does neither unless that key exists as it was read. Without handoff it only deletes, so it works
// on a full disk. Doing it twice is harmless. A refusal shows which of the acquisition's keys exist
// if the transaction carried a handoff or is a set's bare one.
func (a *Acquisition) releaseTxn(d deletion) *pb.TxnRequest {
	t := txn.New()
	for _, name := range a.owned() {
		key := []byte(name)
		if d.exact {
			t.Compare = append(t.Compare, txn.ModIs(key, d.mod))
			t.Success = append(t.Success, txn.Delete(key))
		} else {
			t.Compare = append(t.Compare, txn.CreateIs(key, d.create))
			t.Success = append(t.Success, txn.DeletePrevious(key))
		}
		if d.handoff || a.isSet() && !d.exact {
			t.Failure = append(t.Failure, txn.Stat(key))
		}
	}
	if a.permit != nil && a.permit.cancels {
		t.Success = append(t.Success, txn.Delete(a.s.CancelKey(a.entry.Number()))) // the take put it
	}
	if a.hasOwnerKey {
		t.Success = append(t.Success, txn.Delete(a.s.OwnerKey(a.entry.Number())))
	}
	if !d.handoff {
		return t
	}
	if next, rest, ok := d.successors.First(); ok {
		successor := slices.Concat([]byte(a.queues[0].Prefix), next.Name)
		_, name := keys.Split(a.Key())
		t.Compare = append(t.Compare, txn.CreateIs(successor, next.Create))
		t.Success = append(t.Success, txn.PutKeepingLease(successor, next.HandedOff(name, d.create, rest)))
	}
	return t
}
