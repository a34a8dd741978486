package inspect

import (
	"context"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/txn"
)

// A SessionKey is a key among the sessions' own: a session's, or one below it that
// belongs to one of its attempts.
type SessionKey struct {
	Place       // of the key; Owner and so on are the session's
	Named int64 // the lease that it names; 0: none, so it is nobody's
	Below bool  // it is an attempt's
}

// Sessions reads the sessions' own keys, linearizably, page by page. Their values
// are small.
func Sessions(ctx context.Context, c *pawl.Client) ([]SessionKey, error) {
	r, _, err := newReader(ctx, c, Scope{})
	if err != nil {
		return nil, fmt.Errorf("survey: sessions: %w", err)
	}
	prefix := keys.SessionRoot(r.host.Namespace)
	var out []SessionKey
	var rev int64
	for from := []byte(prefix); ; {
		resp, err := r.ask(ctx, "read sessions", get(&pb.RangeRequest{Key: from, RangeEnd: txn.PrefixEnd(prefix), Limit: page, Revision: rev}))
		if err != nil {
			return nil, fmt.Errorf("survey: sessions: %w", r.explain(err, span{prefix: prefix}))
		}
		if rev == 0 {
			rev = resp.Header.Revision
		}
		kvs := txn.KVs(resp, 0)
		for _, kv := range kvs {
			if keys.OfOnce(r.host.Namespace, string(kv.Key)) {
				continue
			}
			k := SessionKey{Place: Place{Key: string(kv.Key), Token: tokenOf(kv), Modified: kv.ModRevision, Lease: kv.Lease}}
			k.Named, k.Below, _ = keys.ParseSessionKey(r.host.Namespace, k.Key)
			k.sign(kv.Value)
			out = append(out, k)
		}
		if len(kvs) < page {
			return out, nil
		}
		from = append(kvs[len(kvs)-1].Key, 0)
	}
}
