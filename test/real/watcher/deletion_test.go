package watcher_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-locks/pawl/internal/watcher"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// A watch of deletions is delivered no put, and each deletion, also after its stream was lost.
func TestAWatchOfDeletionsYieldsDeletionsAlone(t *testing.T) {
	onRealEtcd(t, 300, func(t *testing.T, r *real) {
		rev := r.put("k", "v")
		h := r.hub("")
		l := &log{t: t}
		h.WatchDeletionsNow("k", "", rev+1, l.note)
		time.Sleep(time.Second)
		require.Equal(t, rev, l.created())
		before := metric(t, "grpc_server_msg_sent_total", "Watch")
		r.put("k", "w")
		r.put("k", "last")
		synctest.Wait()
		assert.Equal(t, before, metric(t, "grpc_server_msg_sent_total", "Watch"), "puts cost nothing")
		first := r.remove("k")
		synctest.Wait()
		require.Len(t, l.all(), 2)
		assert.Equal(t, []watcher.Event{{Key: "k", Deleted: true, ModRevision: first}}, l.all()[1].Events)
		r.put("k", "again")
		r.cut()
		second := r.remove("k")
		time.Sleep(10 * time.Second)
		require.Len(t, l.all(), 3)
		assert.Equal(t, []watcher.Event{{Key: "k", Deleted: true, ModRevision: second}}, l.all()[2].Events)
	})
}

// Where the put of what was deleted is compacted, the deletion is delivered, or the compaction in
// its place.
func TestAWatchOfDeletionsLearnsOfOneWhosePutIsCompacted(t *testing.T) {
	onRealEtcd(t, 300, func(t *testing.T, r *real) {
		rev := r.put("k", "v")
		h := r.hub("")
		l := &log{t: t}
		h.WatchDeletionsNow("k", "", rev+1, l.note)
		time.Sleep(time.Second)
		require.Equal(t, rev, l.created())
		r.down.Store(true)
		r.cut()
		r.put("k", "w")
		gone := r.remove("k")
		r.compact(gone)
		r.down.Store(false)
		time.Sleep(10 * time.Second)
		require.Len(t, l.all(), 2)
		if u := l.all()[1]; u.Compacted == 0 {
			assert.Equal(t, []watcher.Event{{Key: "k", Deleted: true, ModRevision: gone}}, u.Events)
		}
	})
}

func (r *real) remove(key string) int64 {
	resp, err := r.kv.DeleteRange(context.Background(), &pb.DeleteRangeRequest{Key: []byte(key)})
	require.NoError(r.t, err)
	return resp.Header.Revision
}
