package inspect

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/txn"
)

// answer queries the cluster. What the role may not read stays unknown.
func (r *reader) answer(ctx context.Context, queries []query) (map[query]answer, error) {
	answers := make(map[query]answer, len(queries))
	for len(queries) > 0 {
		n := min(batchSize/2, len(queries)) // up to three operations each; a server may allow only 64
		err := r.answerBatch(ctx, queries[:n], true, answers)
		if cluster.IsCompacted(err) {
			err = r.answerBatch(ctx, queries[:n], false, answers)
		}
		if err != nil && !cluster.IsPermissionDenied(err) {
			return nil, err
		}
		queries = queries[n:]
	}
	return answers, nil
}

// answerBatch reads the state at the queries' revisions. If then is false, because those are
// compacted, it reads the current state: a session that exists now existed then, and a session that
// does not exist now stays unknown.
func (r *reader) answerBatch(ctx context.Context, queries []query, then bool, answers map[query]answer) error {
	var ops []*pb.RequestOp
	for _, q := range queries {
		rev := q.rev
		if !then {
			rev = 0
		}
		key := keys.SessionKey(r.host.Namespace, q.lease)
		second := keys.OwnerKey(key, q.n)
		if q.ended {
			second = keys.EvictionKey(key, q.n)
		}
		ops = append(ops, get(&pb.RangeRequest{Key: []byte(key), Revision: rev}), get(&pb.RangeRequest{Key: []byte(second), Revision: rev}))
	}
	resp, err := r.query(ctx, "read sessions", ops...)
	if err != nil {
		return err
	}
	for i, q := range queries {
		a := answer{known: then}
		if kv := txn.KV(resp, 2*i); kv != nil {
			a = answer{known: true, there: true, value: kv.Value}
		}
		switch kv := txn.KV(resp, 2*i+1); {
		case kv == nil:
		case !q.ended:
			a.owner = append([]byte{}, kv.Value...)
		case !then || kv.ModRevision == q.rev:
			a.broken = append([]byte{}, kv.Value...)
		}
		answers[q] = a
	}
	return nil
}
