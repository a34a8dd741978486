package watch_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.uber.org/goleak"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/kv"
	"github.com/pawl-locks/pawl/test/etcdtest"
	"github.com/pawl-locks/pawl/watch"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAWatchOnARealCluster(t *testing.T) {
	server := etcdtest.Start(t)
	c, err := pawl.Dial(t.Context(), pawl.Config{Endpoints: server.Endpoints()})
	require.NoError(t, err)
	defer c.Close()
	put := func(key string) int64 {
		res, err := c.KV().Txn(t.Context(), kv.Txn{Then: []kv.Op{kv.Put(key, []byte("v"))}})
		require.NoError(t, err)
		return res.Revision
	}
	first := put("k/1")
	var got []watch.Event
	for ev, err := range c.Watch(t.Context(), "k/", watch.Options{Prefix: true, From: first, Values: true}) {
		require.NoError(t, err)
		got = append(got, ev)
		switch len(got) {
		case 1:
			require.NoError(t, server.Restart())
			put("k/2")
		case 2:
			_, err := c.KV().Txn(t.Context(), kv.Txn{Then: []kv.Op{kv.Delete("k/1")}})
			require.NoError(t, err)
		}
		if len(got) == 3 {
			break
		}
	}
	assert.Equal(t, watch.Event{Key: "k/1", Value: []byte("v"), ModRevision: first, CreateRevision: first}, got[0])
	assert.Equal(t, "k/2", got[1].Key)
	assert.Equal(t, watch.Event{Key: "k/1", Deleted: true, ModRevision: got[1].ModRevision + 1}, got[2])

	last := put("k/3")
	_, err = pb.NewKVClient(server.Conn(t)).Compact(t.Context(), &pb.CompactionRequest{Revision: last, Physical: true})
	require.NoError(t, err)
	next := int64(0)
	for ev, err := range c.Watch(t.Context(), "k/", watch.Options{Prefix: true, From: first}) {
		require.NoError(t, err)
		if ev.Gap > 0 {
			assert.Equal(t, last, ev.Gap)
			next = put("k/4")
			continue
		}
		assert.Equal(t, next, ev.ModRevision)
		break
	}
}
