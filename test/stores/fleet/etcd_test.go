//go:build unix

package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/hooks"
	"github.com/pawl-locks/pawl/internal/testkit/fleet"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
	"github.com/pawl-locks/pawl/kv"
)

// keys is the Issuer for etcd, where a token is the create revision of the lock's key, and the key
// goes when the lease ends.
type keys struct {
	t  *testing.T
	kv *kv.Client
}

func newKeys(t *testing.T, endpoint string) keys {
	c, err := pawl.Dial(t.Context(), pawl.Config{Endpoints: []string{endpoint}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return keys{t, c.KV()}
}

func lockKey(resource string) string { return "locks/" + resource }

func (k keys) do(op kv.Op) kv.Result {
	r, err := k.kv.Txn(context.Background(), kv.Txn{Then: []kv.Op{op}})
	if err != nil {
		k.t.Error(err) // the run continues, and shows nothing
	}
	return r
}

func (k keys) Issue(resource string) fencing.Token {
	k.End(resource, 0)
	return fencing.Token(k.do(kv.Put(lockKey(resource), nil)).Revision)
}

func (k keys) End(resource string, _ fencing.Token) { k.do(kv.Delete(lockKey(resource))) }

// An etcdStore keeps each set in a key. With the guard, each transaction compares the lock's key,
// as Held.Guard does.
type etcdStore struct {
	*pawl.Client
	guard bool
}

func openEtcd(socket string, guard bool) (fleet.Store, error) {
	ctx, cancel := context.WithTimeout(context.Background(), testscale.Hang)
	defer cancel()
	for {
		c, err := pawl.Dial(ctx, pawl.Config{Endpoints: []string{"unix://" + socket}})
		if err == nil || ctx.Err() != nil { // else it was cut
			return etcdStore{c, guard}, err
		}
	}
}

func (s etcdStore) do(ctx context.Context, resource string, t fencing.Token, op kv.Op) (kv.Result, error) {
	txn := kv.Txn{Then: []kv.Op{op}}
	if s.guard {
		txn.Guards = []kv.Guard{hooks.KVGuard(lockKey(resource), t, nil).(kv.Guard)}
	}
	r, err := s.KV().Txn(ctx, txn)
	if err != nil && !errors.Is(err, kv.ErrUnknown) {
		err = fmt.Errorf("%w: %w", fleet.ErrNotApplied, err)
	}
	return r, err
}

func (s etcdStore) Read(ctx context.Context, resource string, t fencing.Token) (string, error) {
	r, err := s.do(ctx, resource, t, kv.Get("sets/"+resource))
	if err != nil {
		return "", err
	}
	return string(r.Gets[0].Value), nil
}

func (s etcdStore) Write(ctx context.Context, resource string, t fencing.Token, value string) error {
	_, err := s.do(ctx, resource, t, kv.Put("sets/"+resource, []byte(value)))
	return err
}
