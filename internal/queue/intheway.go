package queue

import (
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/txn"
)

// This file says for which keys an acquisition waits, in each mode (rules RW1 to RW3): those in its
// way that were created earlier. The reads and comparisons that decide who owns a name are made of
// these ranges. isAlone says when they leave out the session's keys.

// A span is a range of keys.
type span struct{ from, to []byte }

// prefixInTheWay returns the prefix of the queue's keys, and of all keys that may be in their way.
func (q Queue) prefixInTheWay() string {
	var from []byte
	switch {
	case q.Limit == 0:
		return q.Prefix // does not allocate
	case q.resumed > 0:
		from, _ = keys.SlotRange(q.Prefix, int(q.resumed-1))
	default:
		from, _ = keys.TurnstileRange(q.Prefix)
	}
	return string(from)
}

// inTheWay returns the ranges of keys for which an acquisition waits if they were created earlier:
// all keys for an exclusive one, those on either side of the shared keys for a shared one (rule
// RW1), and those in the turnstile for a semaphore.
func (q Queue) inTheWay() []span {
	from, to := []byte(q.prefixInTheWay()), txn.PrefixEnd(q.prefixInTheWay())
	if !q.Shared {
		return []span{{from, to}}
	}
	shared, above := keys.SharedRange(q.Prefix)
	return []span{{from, shared}, {above, to}}
}

// lastInTheWay reads, in each span in the way, the last-created key whose create revision is at
// most most. If most is 0, there is no bound.
func (q Queue) lastInTheWay(most int64) (ops []*pb.RequestOp) {
	for _, s := range q.inTheWay() {
		ops = append(ops, txn.LastBetween(s.from, s.to, most))
	}
	return ops
}

// upTo reads the last-created keys in the way whose create revision is at most own, that of its
// key. The key may be among them.
func (q Queue) upTo(own int64) []*pb.RequestOp {
	if q.Shared {
		return q.lastInTheWay(own)
	}
	return []*pb.RequestOp{txn.LastUnder(q.prefixInTheWay(), 2, own)}
}

// firstInTheWay reads the first-created key in each span in the way.
func (q Queue) firstInTheWay() (ops []*pb.RequestOp) {
	for _, s := range q.inTheWay() {
		ops = append(ops, txn.FirstBetween(s.from, s.to))
	}
	return ops
}

// noneInTheWay compares that no key is in the way.
func (q Queue) noneInTheWay() (cs []*pb.Compare) {
	for _, s := range q.inTheWay() {
		cs = append(cs, txn.NoneBetween(s.from, s.to))
	}
	return cs
}

// first returns the name of the first-created key that the n operations starting at i read, or ""
// if there is none.
func first(resp *pb.TxnResponse, i, n int) (key string) {
	for create := int64(0); n > 0; i, n = i+1, n-1 {
		if kv := txn.KV(resp, i); kv != nil && (key == "" || kv.CreateRevision < create) {
			key, create = string(kv.Key), kv.CreateRevision
		}
	}
	return key
}

// spans returns how many spans are in the way in all its queues together.
func (a *Acquisition) spans() (n int) {
	for _, q := range a.queues() {
		n += q.spans()
	}
	return n
}

// spans returns how many spans are in the way.
func (q Queue) spans() int {
	if q.Shared {
		return 2
	}
	return 1
}

// An etcd range also visits deleted keys until they are compacted. If a session takes one name
// again and again, most of those keys are its own, and the session knows that they are gone for
// good. So an acquisition that is its session's only one on the name leaves the range of the
// session's keys out of its reads. No key but its own can be in that range.

// isAlone reports whether its key is the session's only key in the queue, and has been since the
// acquisition began. It is false unless the acquisition is an exclusive one of one name in pawl's
// layout. In etcd's layout the keys of other names may lie among the session's keys, and a shared
// acquisition reads only the keys in its way.
func (a *Acquisition) isAlone() bool {
	ordinary := !a.queue.EtcdLayout && !a.queue.Shared && a.permit == nil && !a.isSet()
	return ordinary && a.s.Alone(a.n, a.queue.Prefix)
}
