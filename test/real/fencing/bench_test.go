package fencing_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/hooks"
	"github.com/pawl-locks/pawl/internal/testkit/pairbench"
	"github.com/pawl-locks/pawl/kv"
	"github.com/pawl-locks/pawl/test/etcdtest"
)

// The cost that a Guard adds to a put, on an etcd that waits for its disk.
func BenchmarkEtcdPut(b *testing.B) {
	server := etcdtest.StartWith(b, etcdtest.Options{Fsync: true})
	client, err := pawl.Dial(b.Context(), pawl.Config{Endpoints: server.Endpoints()})
	require.NoError(b, err)
	b.Cleanup(func() { _ = client.Close() })
	res, err := client.KV().Txn(b.Context(), kv.Txn{Then: []kv.Op{kv.Put("lock", nil)}})
	require.NoError(b, err)
	put := func(guards ...kv.Guard) func() error {
		return func() error {
			_, err := client.KV().Txn(b.Context(), kv.Txn{Guards: guards, Then: []kv.Op{kv.Put("k", []byte("x"))}})
			return err
		}
	}
	pairbench.Run(b,
		pairbench.Way{Name: "bare", Do: put()},
		pairbench.Way{Name: "Guard", Do: put(hooks.KVGuard("lock", fencing.Token(res.Revision), nil).(kv.Guard))})
}
