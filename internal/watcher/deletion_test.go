package watcher

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

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
		w := h.WatchDeletion("k", rev+1, l.note)
		time.Sleep(time.Second)
		require.True(t, w.Armed())
		before := metric(t, "grpc_server_msg_sent_total", "Watch")
		r.put("k", "w")
		r.put("k", "last")
		synctest.Wait()
		assert.Equal(t, before, metric(t, "grpc_server_msg_sent_total", "Watch"), "puts cost nothing")
		first := r.remove("k")
		synctest.Wait()
		require.Len(t, l.all(), 1)
		assert.Equal(t, []Event{{Key: "k", Deleted: true, ModRevision: first}}, l.all()[0].Events)
		r.put("k", "again")
		r.cut()
		second := r.remove("k")
		time.Sleep(10 * time.Second)
		require.Len(t, l.all(), 2)
		assert.Equal(t, []Event{{Key: "k", Deleted: true, ModRevision: second}}, l.all()[1].Events)
	})
}

// Where the put of what was deleted is compacted, the deletion is delivered, or the compaction in
// its place.
func TestAWatchOfDeletionsLearnsOfOneWhosePutIsCompacted(t *testing.T) {
	onRealEtcd(t, 300, func(t *testing.T, r *real) {
		rev := r.put("k", "v")
		gone := r.remove("k")
		r.compact(gone)
		h := r.hub("")
		l := &log{t: t}
		h.WatchDeletion("k", gone, l.note)
		time.Sleep(time.Second)
		require.Len(t, l.all(), 1)
		if u := l.all()[0]; u.Compacted == 0 {
			assert.Equal(t, []Event{{Key: "k", Deleted: true, ModRevision: gone}}, u.Events)
		}
		assert.Greater(t, gone, rev)
	})
}

func (r *real) remove(key string) int64 {
	resp, err := r.kv.DeleteRange(context.Background(), &pb.DeleteRangeRequest{Key: []byte(key)})
	require.NoError(r.t, err)
	return resp.Header.Revision
}

// A message sent alone costs both ends several times as much as one of many. The next stream, whose
// creations may have the same IDs, gets no cancel of them.
func TestCancelsWaitForOneAnother(t *testing.T) {
	inBubble(t, benchConfig{}, func(t *testing.T, b *bench) {
		ignore := func(Update) {}
		_, _ = b.watch("stays", "", 1)
		c := b.accept()
		c.grant()
		gone := []*Watch{b.hub.Watch("of all", "", 1, ignore)}
		ids := []int64{c.grant().WatchId}
		for i := range 2 {
			gone = append(gone, b.hub.WatchDeletion(fmt.Sprint("k", i), 1, ignore))
			ids = append(ids, c.grant().WatchId)
		}
		synctest.Wait()
		gone[0].Cancel()
		c.nothing(sweepAfter / 2)
		gone[1].Cancel()
		c.nothing(sweepAfter/2 - 1)
		time.Sleep(time.Nanosecond)
		assert.Equal(t, ids[:2], []int64{c.canceled(), c.canceled()})
		c.nothing(2 * sweepAfter)

		gone[2].Cancel()
		synctest.Wait()
		c.end <- nil
		c = b.accept()
		assert.Equal(t, "stays", string(c.grant().Key))
		c.nothing(time.Second)
	})
}
