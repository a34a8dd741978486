package inspect

import (
	"context"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/keys"
)

// A SessionKey is a session's key, or a key below it that belongs to one of the session's queue
// keys.
type SessionKey struct {
	Position       // of the key; Owner and so on are the session's
	KeyLease int64 // the lease in its name; 0 if none, so it is no session's
	Below    bool  // it belongs to a queue key
}

// Sessions reads the session keys, linearizably, page by page. Their values are small.
func Sessions(ctx context.Context, c *pawl.Client) ([]SessionKey, error) {
	return using(ctx, c, "inspect: sessions", func(r *reader) (out []SessionKey, err error) {
		err = reread(func() error {
			out, err = r.sessions(ctx)
			return err
		})
		return out, err
	})
}

// sessions reads them at one revision.
func (r *reader) sessions(ctx context.Context) (out []SessionKey, err error) {
	err = r.pages(ctx, "list sessions", span{prefix: keys.SessionRoot(r.host.Namespace)}, new(int64), false, func(kvs []*mvccpb.KeyValue) error {
		for _, kv := range kvs {
			if keys.OfOnce(r.host.Namespace, string(kv.Key)) || !keys.OfSessions(string(kv.Key)) {
				continue
			}
			k := SessionKey{Position: Position{Key: string(kv.Key), Token: fencing.Token(kv.CreateRevision), Modified: kv.ModRevision, Lease: kv.Lease}}
			k.KeyLease, k.Below, _ = keys.ParseSessionKey(r.host.Namespace, k.Key)
			k.identify(kv.Value)
			out = append(out, k)
		}
		return nil
	})
	return out, err
}
