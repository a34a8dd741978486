package inspect

import (
	"context"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/txn"
)

// A SessionKey is a session's own key, or a key below it that belongs to one of the
// session's queue keys.
type SessionKey struct {
	Position       // of the key; Owner and so on are the session's
	Named    int64 // the lease that it names; 0: none, so it is no session's
	Below    bool  // it belongs to a queue key
}

// Sessions reads the session keys, linearizably, page by page. Their values are small.
func Sessions(ctx context.Context, c *pawl.Client) ([]SessionKey, error) {
	r, _, err := newReader(ctx, c, Scope{})
	if err != nil {
		return nil, fmt.Errorf("inspect: sessions: %w", err)
	}
	var out []SessionKey
	err = reread(func() error {
		out, err = r.sessions(ctx)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("inspect: sessions: %w", err)
	}
	return out, nil
}

// sessions reads them page by page, at one revision.
func (r *reader) sessions(ctx context.Context) (out []SessionKey, err error) {
	prefix := keys.SessionRoot(r.host.Namespace)
	var rev int64
	for from := []byte(prefix); ; {
		resp, err := r.query(ctx, "list sessions", get(&pb.RangeRequest{Key: from, RangeEnd: txn.PrefixEnd(prefix), Limit: pageSize, Revision: rev}))
		if err != nil {
			return nil, r.explain(err, span{prefix: prefix})
		}
		if rev == 0 {
			rev = resp.Header.Revision
		}
		kvs := txn.KVs(resp, 0)
		for _, kv := range kvs {
			if keys.OfOnce(r.host.Namespace, string(kv.Key)) || !keys.OfSessions(string(kv.Key)) {
				continue
			}
			k := SessionKey{Position: Position{Key: string(kv.Key), Token: tokenOf(kv), Modified: kv.ModRevision, Lease: kv.Lease}}
			k.Named, k.Below, _ = keys.ParseSessionKey(r.host.Namespace, k.Key)
			k.identify(kv.Value)
			out = append(out, k)
		}
		if len(kvs) < pageSize {
			return out, nil
		}
		from = append(kvs[len(kvs)-1].Key, 0)
	}
}
