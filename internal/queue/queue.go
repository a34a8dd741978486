package queue

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/txn"
)

// A Queue is where all who want one name queue, and how it is wanted.
type Queue struct {
	keys.Queue

	Election bool  // what an observer is notified of: campaigns and terms, or else locks
	Shared   bool  // together with other shared keys (rules RW1 to RW5)
	resumed  int32 // of a semaphore: one more than the slot that a permit is resumed with; 0: it comes to the turnstile
	Limit    int   // of a semaphore: how many slots it has; 0: it is none
}

// New checks name and makes its queue: see keys.NewQueue.
func New(namespace, name string, etcdLayout bool) (Queue, error) {
	q, err := keys.NewQueue(namespace, name, etcdLayout)
	return Queue{Queue: q}, err
}

// place is where its keys are put.
func (q Queue) place() keys.Place {
	p := keys.Place{Prefix: q.Prefix}
	switch {
	case q.Shared:
		p.Form = keys.Shared
	case q.Limit > 0:
		p.Form = keys.Turnstile
	}
	return p
}

// owner is the lease of a key of the queue whose form is pawl's.
func (q Queue) owner(key string) (lease int64, ok bool) {
	k, ok := q.Parse(key)
	return k.Lease, ok
}

// carry returns a child of ctx that carries t, as the token of q's name in its mode, or of
// the slot that it holds.
func (a *Acquisition) carry(ctx context.Context, q Queue, t fencing.Token) context.Context {
	switch slot, ok := a.Slot(); {
	case ok:
		return fencing.NewContext(ctx, keys.SlotResource(q.Name, slot), t)
	case q.Shared:
		return fencing.NewSharedContext(ctx, q.Name, t)
	}
	return fencing.NewContext(ctx, q.Name, t)
}

// A span is a range of keys.
type span struct{ from, to []byte }

// lined is what its keys begin with, and all that may be in their way.
func (q Queue) lined() string {
	var from []byte
	switch {
	case q.Limit == 0:
		return q.Prefix // no allocation
	case q.resumed > 0:
		from, _ = keys.SlotRange(q.Prefix, int(q.resumed-1))
	default:
		from, _ = keys.TurnstileRange(q.Prefix)
	}
	return string(from)
}

// inTheWay are the keys that one of the queue waits for where they were created before it:
// of an exclusive one all, of a shared one those on either side of the shared ones
// (rule RW1), of a semaphore's those in the turnstile.
func (q Queue) inTheWay() []span {
	from, to := []byte(q.lined()), txn.PrefixEnd(q.lined())
	if !q.Shared {
		return []span{{from, to}}
	}
	shared, above := keys.SharedRange(q.Prefix)
	return []span{{from, shared}, {above, to}}
}

// lastInTheWay reads, of each span in the way, the last-created key that was created at
// below or earlier; below 0: no bound.
func (q Queue) lastInTheWay(below int64) (ops []*pb.RequestOp) {
	for _, s := range q.inTheWay() {
		ops = append(ops, txn.LastBetween(s.from, s.to, below))
	}
	return ops
}

// upTo reads the last-created keys in the way up to the revision at which the own key was
// created, itself included where it is among them.
func (q Queue) upTo(own int64) []*pb.RequestOp {
	if q.Shared {
		return q.lastInTheWay(own)
	}
	return []*pb.RequestOp{txn.LastUnder(q.lined(), 2, own)}
}

// firstInTheWay reads, of each span in the way, the first-created key.
func (q Queue) firstInTheWay() (ops []*pb.RequestOp) {
	for _, s := range q.inTheWay() {
		ops = append(ops, txn.FirstBetween(s.from, s.to))
	}
	return ops
}

// noneInTheWay compares for no key in the way at all.
func (q Queue) noneInTheWay() (cs []*pb.Compare) {
	for _, s := range q.inTheWay() {
		cs = append(cs, txn.NoneBetween(s.from, s.to))
	}
	return cs
}

// first is the name of the first-created of the keys that n operations, from the i-th on,
// have read; "": there is none.
func first(resp *pb.TxnResponse, i, n int) (key string) {
	for create := int64(0); n > 0; i, n = i+1, n-1 {
		if kv := txn.KV(resp, i); kv != nil && (key == "" || kv.CreateRevision < create) {
			key, create = string(kv.Key), kv.CreateRevision
		}
	}
	return key
}

// spans is how many spans are in the way in all of its queues.
func (a *Acquisition) spans() (n int) {
	for _, q := range a.queues() {
		n += q.spans()
	}
	return n
}

// spans is how many spans are in the way.
func (q Queue) spans() int {
	if q.Shared {
		return 2
	}
	return 1
}
