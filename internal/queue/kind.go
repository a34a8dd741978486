package queue

import (
	"context"
	"fmt"
	"log/slog"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/queue/state"
	"github.com/pawl-locks/pawl/internal/txn"
)

// A name is either a semaphore's, or a lock's or an election's (rule SM5). An enqueue compares
// that no key of the other kind exists, and otherwise puts nothing, in either layout. A key that
// looks like a semaphore's may be another lock's, because names nest in etcd's layout, or may be
// a foreign key. Then the enqueue is sent again without that comparison, only the predecessor's
// name decides, and the acquisition fails if the predecessor is a semaphore's. Should both kinds
// exist nevertheless, they still exclude each other: a lock waits for all keys before its own,
// and a slot is taken only if no key of a lock exists.

// isSemaphores reports whether a key of this form is a semaphore's.
func isSemaphores(f keys.Form) bool { return f == keys.Turnstile || f == keys.Slot }

// ofOtherKind returns the ranges of the keys of another kind than the queue's.
func (q Queue) ofOtherKind() []span {
	if q.Limit == 0 {
		from, to := keys.SemaphoreRange(q.Prefix)
		return []span{{from, to}}
	}
	turnstile, behind := keys.TurnstileRange(q.Prefix)
	slots, above := keys.SlotsRange(q.Prefix)
	return []span{{[]byte(q.Prefix), turnstile}, {behind, slots}, {above, txn.PrefixEnd(q.Prefix)}}
}

// noneOfOtherKind adds to cs the comparison that no key of another kind exists.
func (q Queue) noneOfOtherKind(cs []*pb.Compare) []*pb.Compare {
	if q.Limit == 0 { // every enqueue of a lock takes this path
		return append(cs, txn.NoneBetween(keys.SemaphoreRange(q.Prefix)))
	}
	for _, s := range q.ofOtherKind() {
		cs = append(cs, txn.NoneBetween(s.from, s.to))
	}
	return cs
}

// firstOfOtherKind reads the first-created key in each range of keys of another kind.
func (q Queue) firstOfOtherKind() (ops []*pb.RequestOp) {
	for _, s := range q.ofOtherKind() {
		ops = append(ops, txn.FirstBetween(s.from, s.to))
	}
	return ops
}

// comparesKind reports whether an enqueue has to compare that no key of another kind is in q. A
// try of a lock need not: it compares that no key at all is in the way.
func (a *Acquisition) comparesKind(q Queue, try bool) bool {
	return q.Limit > 0 || !try && !a.nested
}

// firstOfOtherKind reads, in each queue, the first-created keys of another kind.
func (a *Acquisition) firstOfOtherKind() (ops []*pb.RequestOp) {
	for _, q := range a.queues() {
		ops = append(ops, q.firstOfOtherKind()...)
	}
	return ops
}

// whichOtherKind is the error for a key of another kind in the answer of firstOfOtherKind,
// which begins at operation i; nil: there is none.
func (a *Acquisition) whichOtherKind(resp *pb.TxnResponse, i int) error {
	for ; i < len(resp.Responses); i++ {
		if kv := txn.KV(resp, i); kv != nil {
			if err := a.otherKind(string(kv.Key)); err != nil {
				return err
			}
		}
	}
	return nil
}

// leavesKind reports whether firstOfOtherKind, from operation i on, read keys that only look
// like a semaphore's; the caller has checked that none of them is one. If so, later enqueues do
// not compare the kind, and only the predecessor's name decides.
func (a *Acquisition) leavesKind(resp *pb.TxnResponse, i int) bool {
	if a.permit != nil || a.nested || first(resp, i, len(resp.Responses)-i) == "" {
		return false
	}
	a.nested = true
	return true
}

// otherKind is the error for a key in the way that is of another kind; nil: it is not, or key
// is empty.
func (a *Acquisition) otherKind(key string) error {
	for _, q := range a.queues() {
		if q.Limit == 0 {
			if err := CheckKey(q.Queue, key); err != nil {
				return err
			}
		} else if k, ok := q.Parse(key); key != "" && (!ok || !isSemaphores(k.Form)) {
			return &detail{ErrKind, fmt.Sprintf("%q is not a semaphore's: key %q is there", q.Name, key)}
		}
	}
	return nil
}

// CheckKey fails with ErrKind if key is a semaphore's, so that q is not a lock's or an
// election's.
func CheckKey(q keys.Queue, key string) error {
	if k, ok := q.Parse(key); ok && isSemaphores(k.Form) {
		return &detail{ErrKind, fmt.Sprintf("%q is a semaphore's: key %q is there", q.Name, key)}
	}
	return nil
}

// wrongKind is the error of a query if before, the key in the way, is of another kind, or if,
// for a semaphore, the query found a key of a lock or an election.
func (a *Acquisition) wrongKind(before state.Key, resp *pb.TxnResponse) error {
	if a.permit != nil {
		return a.whichOtherKind(resp, a.spans()+1)
	}
	return a.otherKind(before.Name)
}

// A lock and an election of one name share a queue, which is seldom meant. A key's name does
// not say which of the two it is, and its value is not read while waiting. So an acquisition
// that still waits after a round of renewals reads its predecessor's value, once, in the
// background, if warnings are logged.

// checkKind logs, once, that a lock waits for a candidate, or a candidate for a lock.
func (a *Acquisition) checkKind() {
	log := a.s.Host().Cluster.Logger()
	if !log.Enabled(context.Background(), slog.LevelWarn) {
		return
	}
	p := read(a, func(s *state.Machine) state.Key { p, _ := s.Predecessor(); return p })
	if p.Name == "" || !a.kindChecked.CompareAndSwap(false, true) {
		return
	}
	if owner, ok := a.owner(p.Name); !ok || owner == a.s.ID() {
		return
	}
	a.inBackground(fmt.Sprintf("the kind of %q", p.Name), func(ctx context.Context) {
		resp, err := a.s.Host().Cluster.Txn(ctx, cluster.Request{Op: "read predecessor", Repeat: cluster.Always},
			&pb.TxnRequest{Success: []*pb.RequestOp{txn.Get(p.Name)}})
		if err != nil {
			return // only the log needs it
		}
		if kv := txn.KV(resp, 0); kv != nil && kv.CreateRevision == p.Create && keys.OfLock(kv.Value) == a.queue.Election {
			log.Warn("a lock and an election use one name: this one waits for the other", "name", a.queue.Name, "key", a.Key(), "waits_for", p.Name)
		}
	})
}
