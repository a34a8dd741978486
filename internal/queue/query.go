package queue

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/pawl-locks/pawl/internal/backoff"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/etcdapi"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/queue/state"
	"github.com/pawl-locks/pawl/internal/session"
	"github.com/pawl-locks/pawl/internal/txn"
)

// A query reads, in one transaction, whether the acquisition's key is first (rule A2).
type query struct {
	own   state.Key
	txn   *pb.TxnRequest
	ahead txn.Ops // the last-created conflicting keys that come no later than own
	slots txn.Ops // the held slots of a semaphore
	next  txn.Ops // the keys after own
	value txn.Ops // own with its value, of a query that resumes

	// If one of the comparisons failed:
	session txn.Ops // the session key
	keys    txn.Ops // all keys of the acquisition
	tried   txn.Ops // the slots of a semaphore that it may have taken

	handoffs bool // also read the keys after own
}

// query reads who owns the name, and repeats that while the cluster cannot be reached, the session
// is valid and ctx has not ended.
func (a *Acquisition) query(ctx context.Context) error {
	for wait := backoff.Request(); ; {
		decided, err := a.queryOnce(ctx)
		switch {
		case decided:
			return err
		case a.next() != state.Query:
			return nil // a handoff came meanwhile, or it has ended
		case cluster.EndOf(ctx) != nil || isRefusedAsAWhole(err):
			return err
		}
		if err := a.pause(ctx, wait.Next()); err != nil || a.next() != state.Query {
			return err // or a handoff came meanwhile
		}
	}
}

// queryOnce sends one query. Unless it was decided, err says why not.
func (a *Acquisition) queryOnce(ctx context.Context) (decided bool, err error) {
	q := query{own: a.own(), handoffs: a.entry.Handoffs}
	a.prepare(&q)
	if a.permit != nil {
		a.querySlots(&q)
	}
	resp, err := a.sendQuery(ctx, q.txn)
	switch {
	case err != nil:
		return false, err
	case resp.Header.Revision < q.own.Create:
		return false, fmt.Errorf("answered at revision %d, before the own key's %d", resp.Header.Revision, q.own.Create)
	case !resp.Succeeded:
		return true, a.queryRefused(q, resp)
	}
	before, wrong := a.before(q, resp)
	if wrong != nil {
		return true, wrong
	}
	a.apply(a.answer(q, before, resp), nil)
	return true, nil
}

// sendQuery sends t. It returns early once no answer is needed, as when a handoff came.
func (a *Acquisition) sendQuery(ctx context.Context, t *pb.TxnRequest) (*pb.TxnResponse, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	a.mu.Lock()
	a.endQuery = cancel
	needed := a.entry.Next() == state.Query
	a.mu.Unlock()
	if !needed {
		cancel()
	}
	defer func() {
		a.mu.Lock()
		a.endQuery = nil
		a.mu.Unlock()
	}()
	return a.s.Host().Cluster.Txn(ctx, cluster.Request{Op: "confirm position", Repeat: cluster.Always}, t)
}

// prepare makes q's transaction, which decides who owns the name. If the acquisition's keys and the
// session key are unchanged, it reads in each queue the last-created conflicting key before the
// acquisition's key, and enough to show a tie (rules A2, RW2, ML3, G3).
func (a *Acquisition) prepare(q *query) {
	session, mod := a.s.Key()
	t := &pb.TxnRequest{}
	q.txn = t
	for _, key := range a.owned() {
		t.Compare = append(t.Compare, txn.CreateIs(key, q.own.Create))
	}
	t.Compare = append(t.Compare, txn.ModIs(session, mod))
	var ahead []*pb.RequestOp
	for _, in := range a.queues {
		ahead = append(ahead, in.upTo(q.own.Create)...)
	}
	q.ahead = txn.Then(t, ahead...)
	if q.handoffs {
		q.next = txn.Then(t, txn.NextUnder(a.queues[0].Prefix, keys.MaxSuccessors, q.own.Create+1))
	}
	q.session, q.keys = txn.Else(t, txn.Stat(session)), txn.Else(t, a.ownKeys(txn.Stat)...)
}

// before returns the last-created conflicting key before the acquisition's own, in any of the
// queues, according to the answer to q. It returns the zero Key if there is none. tied is not nil if
// another key has the create revision of the own one. Then neither is before the other, and this
// program or another broke rule G2.
func (a *Acquisition) before(q query, resp *pb.TxnResponse) (predecessor state.Key, tied error) {
	for kv := range q.ahead.In(resp).All() {
		switch key := string(kv.Key); {
		case slices.Contains(a.owned(), key):
		case kv.CreateRevision >= q.own.Create:
			return state.Key{}, tie(q.own, kv)
		case kv.CreateRevision > predecessor.Create:
			predecessor = state.Key{Name: key, Create: kv.CreateRevision}
		}
	}
	return predecessor, nil
}

// tie returns the error of an acquisition whose key shares its create revision with another key of
// the queue.
func tie(own state.Key, kv *mvccpb.KeyValue) error {
	return fmt.Errorf("key %q was created at revision %d, as the own key %q was: two of one queue in one request", kv.Key, kv.CreateRevision, own.Name)
}

// answer reads the answer to q, whose comparisons succeeded. predecessor is what before found.
func (a *Acquisition) answer(q query, predecessor state.Key, resp *pb.TxnResponse) state.Answered {
	ev := state.Answered{Found: true, Revision: resp.Header.Revision}
	if ev.Predecessor = predecessor; ev.Predecessor != (state.Key{}) {
		return ev
	}
	if a.permit != nil {
		ev.Taken = a.taken(q.slots.In(resp).KVs(0))
		return ev
	}
	if q.handoffs {
		ev.Successors = a.queues[0].successors(q.next.In(resp).KVs(0))
	}
	return ev
}

// queryRefused decides what follows from a query whose comparisons failed. A changed key or session
// key ends the acquisition, unless its take of a slot deleted the key.
func (a *Acquisition) queryRefused(q query, resp *pb.TxnResponse) error {
	if err := a.s.ValidateKey(q.session.In(resp).KV(0), resp.Header.Revision); err != nil {
		return a.Err()
	}
	keys := q.keys.In(resp)
	if ask(a, (*session.Entry).Trying) && etcdapi.CreateRevision(keys.KV(0)) != a.own().Create {
		return a.foundTake(q.tried.In(resp), resp.Header.Revision)
	}
	if err := a.missing(keys, resp.Header.Revision); err != nil {
		return err
	}
	return fmt.Errorf("a query was refused at revision %d, and nothing shows why", resp.Header.Revision)
}

// successors returns those of kvs, consecutive keys of the queue, that can receive a handoff.
func (q Queue) successors(kvs []*mvccpb.KeyValue) keys.Successors {
	return keys.NewSuccessors(func(yield func(keys.Successor) bool) {
		for _, kv := range kvs {
			name, ok := bytes.CutPrefix(kv.Key, []byte(q.Prefix))
			if !ok || !yield(keys.Successor{Name: name, Create: kv.CreateRevision, Value: kv.Value}) {
				return
			}
		}
	})
}
