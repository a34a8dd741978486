package inspect

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/txn"
)

// answer asks the cluster. What may not be read stays unknown.
func (r *reader) answer(ctx context.Context, asked []question) (map[question]answer, error) {
	answers := make(map[question]answer, len(asked))
	for len(asked) > 0 {
		n := min(batch, len(asked))
		err := r.answerSome(ctx, asked[:n], true, answers)
		if cluster.IsCompacted(err) {
			err = r.answerSome(ctx, asked[:n], false, answers)
		}
		if err != nil && !cluster.IsPermissionDenied(err) {
			return nil, err
		}
		asked = asked[n:]
	}
	return answers, nil
}

// answerSome asks how it was at the questions' revisions or, where those are
// compacted, how it is now: a session that is there now was there then, and of one
// that is gone nothing is known.
func (r *reader) answerSome(ctx context.Context, asked []question, then bool, answers map[question]answer) error {
	var ops []*pb.RequestOp
	for _, q := range asked {
		rev := q.rev
		if !then {
			rev = 0
		}
		key := keys.SessionKey(r.host.Namespace, q.lease)
		ops = append(ops, get(&pb.RangeRequest{Key: []byte(key), Revision: rev}))
		if q.ended {
			ops = append(ops, get(&pb.RangeRequest{Key: []byte(keys.EvictionKey(key, q.n)), Revision: rev}))
		}
	}
	resp, err := r.ask(ctx, "read sessions", ops...)
	if err != nil {
		return err
	}
	i := 0
	for _, q := range asked {
		var a answer
		if kv := txn.KV(resp, i); kv != nil {
			a = answer{known: true, there: true, value: kv.Value}
		} else {
			a.known = then
		}
		i++
		if q.ended {
			if kv := txn.KV(resp, i); kv != nil && (!then || kv.ModRevision == q.rev) {
				a.broken = append([]byte{}, kv.Value...)
			}
			i++
		}
		answers[q] = a
	}
	return nil
}
