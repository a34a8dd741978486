package queue

import (
	"context"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/queue/state"
	"github.com/pawl-locks/pawl/internal/session"
	"github.com/pawl-locks/pawl/internal/txn"
)

// Resume makes the acquisition of a key that the session's predecessor held: one
// transaction asks whether key has the create revision t, on this session, with
// nothing before it in the queue. The error matches ErrLost where it is not there
// any more. A key is resumed once; one that this session acquired itself is not
// to be resumed, because it has its holder.
func Resume(ctx context.Context, s *session.Session, q Queue, key string, t fencing.Token, l Limits) (*Acquisition, error) {
	if t <= 0 {
		return nil, fmt.Errorf("token %d is none", t)
	}
	own, ok := q.Parse(key)
	if !ok || own.Lease != s.ID() || own.Form > keys.Shared {
		return nil, fmt.Errorf("key %q is not one of lease %x under the name %q", key, s.ID(), q.Name)
	}
	q.Shared = own.Form == keys.Shared
	a := &Acquisition{s: s, queue: q, parent: ctx, key: key, n: own.N}
	a.beginNotices(ctx)
	if err := s.Err(); err != nil {
		return nil, err
	}
	if err := aboveFloor(t, s.Host().Floor); err != nil {
		return nil, err
	}
	asked := query{own: state.Key{Name: key, Create: int64(t)}}
	resp, err := s.Host().Cluster.Txn(ctx, cluster.Request{Op: "resume", Repeat: cluster.Always}, a.resumeTxn(asked))
	if err != nil {
		if ended := s.Err(); ended != nil {
			return nil, ended
		}
		return nil, q.explain(err, s.Host().Namespace)
	}
	mod, err := a.resumed(asked, resp)
	if err != nil {
		return nil, err
	}
	a.state = state.Resumed(asked.own, mod)
	if end := cluster.EndOf(ctx); end != nil {
		return nil, end
	}
	if !s.Adopt(own.N, key) {
		return nil, fmt.Errorf("key %q was acquired, or resumed, in this process", key)
	}
	if err := s.Hold(&a.hook, a, own.N); err != nil {
		return nil, err
	}
	a.limit(l)
	a.watchOwn(resp.Header.Revision + 1)
	a.notifyWon()
	return a, nil
}

// resumeTxn is a query that reads the own key, too, for its modification revision.
func (a *Acquisition) resumeTxn(q query) *pb.TxnRequest {
	t := a.queryTxn(q)
	t.Success = append(t.Success, txn.Look(a.key))
	return t
}

// resumed is the own key's modification revision, or why the answer to resumeTxn does
// not make it held.
func (a *Acquisition) resumed(q query, resp *pb.TxnResponse) (mod int64, err error) {
	if !resp.Succeeded {
		if err := a.s.ValidateKey(txn.KV(resp, 0), resp.Header.Revision); err != nil {
			return 0, &loss{err}
		}
		return 0, &loss{&detail{ErrKeyDeleted, fmt.Sprintf("%q with create revision %d is not there", a.key, q.own.Create)}}
	}
	switch before, tied := a.queue.before(q.own, resp); {
	case tied != nil:
		return 0, tied
	case before != (state.Key{}):
		return 0, fmt.Errorf("key %q was never held: %q is before it", a.key, before.Name)
	}
	if resp.Header.Revision < q.own.Create {
		return 0, fmt.Errorf("answered at revision %d, before the own key's %d", resp.Header.Revision, q.own.Create)
	}
	return txn.KV(resp, a.queue.spans()).ModRevision, nil
}
