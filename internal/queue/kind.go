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

// What is a semaphore's is no lock's or election's, and the other way round (rule SM5). An
// enqueue compares that no key of the other kind is there, and puts nothing where one is. In
// etcd's layout names nest, so that keys which a semaphore's could be taken for may be another
// lock's; so may a foreign key be that lies there. Then the predecessor's name says what it is, and the
// acquisition fails once that is a semaphore's. Whichever of the two stays, they exclude each other:
// a lock waits for all keys before its own, and a slot is taken only where no lock is.

// isSemaphores reports whether a key of this form is a semaphore's.
func isSemaphores(f keys.Form) bool { return f == keys.Turnstile || f == keys.Slot }

// ofOtherKind are the ranges of the keys that are of another kind than the queue's.
func (q Queue) ofOtherKind() []span {
	if q.Limit == 0 {
		from, to := keys.SemaphoreRange(q.Prefix)
		return []span{{from, to}}
	}
	turnstile, behind := keys.TurnstileRange(q.Prefix)
	slots, above := keys.SlotsRange(q.Prefix)
	return []span{{[]byte(q.Prefix), turnstile}, {behind, slots}, {above, txn.PrefixEnd(q.Prefix)}}
}

// noneOfOtherKind adds the comparison for no key of another kind to cs.
func (q *Queue) noneOfOtherKind(cs []*pb.Compare) []*pb.Compare {
	if q.Limit == 0 { // every lock's enqueue comes here
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

// comparesKind reports whether an enqueue compares that no key of another kind is in q. Of a
// lock that is tried every key is in the way, and compared already.
func (a *Acquisition) comparesKind(q *Queue, try bool) bool {
	return q.Limit > 0 || !try && !q.EtcdLayout && !a.nested
}

// firstOfOtherKind reads, of each queue, the first-created keys of another kind.
func (a *Acquisition) firstOfOtherKind() (ops []*pb.RequestOp) {
	for _, q := range a.queues() {
		ops = append(ops, q.firstOfOtherKind()...)
	}
	return ops
}

// whichOtherKind is the error for a key of another kind among those that firstOfOtherKind
// has read from the i-th operation on; nil: there is none.
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

// leavesKind reports whether only keys of nobody's lie where a semaphore's would, among those
// that firstOfOtherKind has read from the i-th operation on, and from now on leaves it to the
// predecessor's name to say what it is.
func (a *Acquisition) leavesKind(resp *pb.TxnResponse, i int) bool {
	if a.permit != nil || a.queue.EtcdLayout || a.nested || first(resp, i, len(resp.Responses)-i) == "" {
		return false
	}
	a.nested = true
	return true
}

// otherKind is the error for a key that is in the way, if it is of another kind; nil: it is
// not, or there is no such key.
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

// CheckKey fails with ErrKind if key is a semaphore's: then q is no lock's and no election's.
func CheckKey(q keys.Queue, key string) error {
	if k, ok := q.Parse(key); ok && isSemaphores(k.Form) {
		return &detail{ErrKind, fmt.Sprintf("%q is a semaphore's: key %q is there", q.Name, key)}
	}
	return nil
}

// wrongKind is the error of a query that found before in the way, or, of a semaphore's, a
// lock or an election beside.
func (a *Acquisition) wrongKind(before state.Key, resp *pb.TxnResponse) error {
	if a.permit != nil {
		return a.whichOtherKind(resp, a.spans()+1)
	}
	return a.otherKind(before.Name)
}

// A lock and an election of one name are one queue, which is seldom meant. A key's name
// does not say which of the two it is, and its value is not read while waiting: so an
// acquisition that still waits after a round of renewals has its predecessor's value read,
// once, in the background, if somebody reads the log.

// checkKind logs, once, that a lock waits for a candidate, or a candidate for a lock.
func (a *Acquisition) checkKind() {
	log := a.s.Host().Cluster.Logger()
	if !log.Enabled(context.Background(), slog.LevelWarn) {
		return
	}
	a.mu.Lock()
	p, _ := a.state.Predecessor()
	first := p.Name != "" && !a.kindChecked
	a.kindChecked = a.kindChecked || first
	a.mu.Unlock()
	if owner, ok := a.owner(p.Name); !first || !ok || owner == a.s.ID() {
		return
	}
	a.inBackground(fmt.Sprintf("the kind of %q", p.Name), func(ctx context.Context) {
		resp, err := a.s.Host().Cluster.Txn(ctx, cluster.Request{Op: "read predecessor", Repeat: cluster.Always},
			&pb.TxnRequest{Success: []*pb.RequestOp{txn.Get(p.Name)}})
		if err != nil {
			return // it is for the log alone
		}
		if kv := txn.KV(resp, 0); kv != nil && kv.CreateRevision == p.Create && keys.OfLock(kv.Value) == a.queue.Election {
			log.Warn("a lock and an election of one name wait for each other", "name", a.queue.Name, "key", a.Key(), "waits_for", p.Name)
		}
	})
}
