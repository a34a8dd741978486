package queue

import (
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/txn"
)

// This file says which keys conflict with an acquisition, in each mode (rules RW1 to RW3). It waits
// for those that were created earlier. The reads and comparisons that decide who owns a name are
// made of these ranges. isOrdinary says when they leave out the session's keys.

// A span is a range of keys.
type span struct{ from, to []byte }

// conflictPrefix returns the prefix of the queue's keys, and of all keys that may conflict with them.
func (q Queue) conflictPrefix() string {
	switch {
	case q.Limit == 0:
		return q.Prefix
	case q.resumed > 0:
		return keys.SlotPrefix(q.Prefix, int(q.resumed-1))
	}
	return keys.TurnstilePrefix(q.Prefix)
}

// conflicts returns the ranges of conflicting keys: all keys for an exclusive acquisition, those on
// either side of the shared keys for a shared one (rule RW1), and those in the turnstile for a
// semaphore.
func (q Queue) conflicts() []span {
	from, to := []byte(q.conflictPrefix()), txn.PrefixEnd(q.conflictPrefix())
	if !q.Shared {
		return []span{{from, to}}
	}
	shared := []byte(keys.SharedPrefix(q.Prefix))
	above := txn.PrefixEnd(string(shared))
	return []span{{from, shared}, {above, to}}
}

// lastConflicts reads, in each conflicting span, the last-created key whose create revision is at
// most most. If most is 0, there is no bound.
func (q Queue) lastConflicts(most int64) (ops []*pb.RequestOp) {
	for _, s := range q.conflicts() {
		ops = append(ops, txn.LastBetween(s.from, s.to, most))
	}
	return ops
}

// upTo reads the last-created conflicting keys whose create revision is at most own, that of its
// key. The key may be among them.
func (q Queue) upTo(own int64) []*pb.RequestOp {
	if q.Shared {
		return q.lastConflicts(own)
	}
	return []*pb.RequestOp{txn.LastUnder(q.conflictPrefix(), 2, own)}
}

// firstConflicts reads the first-created key in each conflicting span.
func (q Queue) firstConflicts() (ops []*pb.RequestOp) {
	for _, s := range q.conflicts() {
		ops = append(ops, txn.FirstBetween(s.from, s.to))
	}
	return ops
}

// noConflicts compares that no conflicting key exists.
func (q Queue) noConflicts() (cs []*pb.Compare) {
	for _, s := range q.conflicts() {
		cs = append(cs, txn.NoneBetween(s.from, s.to))
	}
	return cs
}

// first returns the first-created key that was read, or nil if there is none.
func first(read txn.Answers) (kv *mvccpb.KeyValue) {
	for other := range read.All() {
		if kv == nil || other.CreateRevision < kv.CreateRevision {
			kv = other
		}
	}
	return kv
}

// spans returns how many conflicting spans all its queues have together.
func (a *Acquisition) spans() (n int) {
	for _, q := range a.queues {
		n += len(q.conflicts())
	}
	return n
}

// isOrdinary reports whether it is an exclusive acquisition of one name in pawl's layout. If its key is the
// session's only key in the queue, and has been since the acquisition began (session.Alone), its reads may
// leave out the range of the session's keys (docs/decisions/around-own-keys.md). In etcd's layout the keys of
// other names may lie among the session's keys, and a shared acquisition reads only the conflicting keys.
func (a *Acquisition) isOrdinary() bool {
	return !a.queues[0].EtcdLayout && !a.queues[0].Shared && a.permit == nil && !a.isSet()
}
