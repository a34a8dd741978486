package kv

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/test/etcdtest"
)

// What a Guard adds to a put, on an etcd that waits for its disk.
func BenchmarkPut(b *testing.B) {
	server := etcdtest.StartWith(b, etcdtest.Options{Fsync: true})
	c := New(dial(b, cluster.Config{Endpoints: server.Endpoints()}))
	res, err := c.Txn(b.Context(), Txn{Then: []Op{Put("lock", nil)}})
	require.NoError(b, err)
	held := NewGuard("lock", fencing.Token(res.Revision), nil)
	for _, way := range []struct {
		name   string
		guards []Guard
	}{{"bare", nil}, {"Guard", []Guard{held}}} {
		b.Run(way.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, err := c.Txn(b.Context(), Txn{Guards: way.guards, Then: []Op{Put("k", []byte("x"))}})
				require.NoError(b, err)
			}
		})
	}
}
