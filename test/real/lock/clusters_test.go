package lock_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/lock"
	"github.com/pawl-locks/pawl/test/etcdtest"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// Two processes' Clusters over two real clusters agree where each name is, and
// exclude each other there and nowhere else.
func TestLocksAreSpreadOverTwoRealClusters(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	endpoints := map[string]string{"red": etcdtest.Start(t).Endpoints()[0], "blue": etcdtest.Start(t).Endpoints()[0]}
	process := func() *pawl.Clusters {
		clients := map[string]*pawl.Client{}
		for label, endpoint := range endpoints {
			clients[label] = dial(t, endpoint)
		}
		s, err := pawl.NewClusters(clients)
		require.NoError(t, err)
		return s
	}
	one, other := process(), process()
	used := map[string]int{}
	for i := range 20 {
		name := fmt.Sprint("sharded/", i)
		used[one.Label(name)]++
		h, err := lock.New(one.For(name), name, lock.Options{}).Acquire(ctx)
		require.NoError(t, err)
		m := lock.New(other.For(name), name, lock.Options{})
		_, err = m.TryAcquire(ctx)
		require.ErrorIs(t, err, lock.ErrBusy)
		for label, endpoint := range endpoints {
			r, err := operator(t, endpoint).Range(ctx, &pb.RangeRequest{Key: []byte(h.Key())})
			require.NoError(t, err)
			assert.Len(t, r.Kvs, map[bool]int{true: 1}[label == one.Label(name)], "on its own cluster, and on no other")
		}
		require.NoError(t, h.Release(ctx))
		next, err := m.TryAcquire(ctx)
		require.NoError(t, err)
		assert.Greater(t, next.Token(), h.Token())
		require.NoError(t, next.Release(ctx))
	}
	assert.Len(t, used, 2, "both are used")
	leases := map[string]int{}
	for label, endpoint := range endpoints {
		r, err := operator(t, endpoint).LeaseLeases(ctx, &pb.LeaseLeasesRequest{})
		require.NoError(t, err)
		leases[label] = len(r.Leases)
	}
	assert.Equal(t, map[string]int{"red": 2, "blue": 2}, leases, "one session of each process")
	require.NoError(t, one.Close())
	require.NoError(t, other.Close())
}
