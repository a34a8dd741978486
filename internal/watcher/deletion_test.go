package watcher

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// A watch of deletions is told no put, and each deletion with what was deleted,
// also after its stream was lost.
func TestAWatchOfDeletionsIsToldTheValueThatWasDeleted(t *testing.T) {
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
		assert.Equal(t, []Event{{Key: "k", Deleted: true, Value: []byte("last"), ModRevision: first}}, l.all()[0].Events)
		r.put("k", "again")
		r.cut()
		second := r.remove("k")
		time.Sleep(10 * time.Second)
		require.Len(t, l.all(), 2)
		assert.Equal(t, []Event{{Key: "k", Deleted: true, Value: []byte("again"), ModRevision: second}}, l.all()[1].Events)
	})
}

// Where what was deleted is compacted, the deletion is told without it, or the
// compaction in its place.
func TestAWatchOfDeletionsLearnsOfOneWhoseValueIsCompacted(t *testing.T) {
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

// A cancel of a watch of deletions waits for others, and not for long; one that is
// in a hurry takes along those that wait. The next stream, whose watches may have
// the same IDs, hears nothing of them.
func TestCancelsOfWatchesOfDeletionsWaitForOneAnother(t *testing.T) {
	inBubble(t, benchConfig{}, func(t *testing.T, b *bench) {
		ignore := func(Update) {}
		_, _ = b.watch("stays", "", 1)
		c := b.accept()
		c.grant()
		hasty := b.hub.Watch("hasty", "", 1, ignore)
		hastyID := c.grant().WatchId
		var gone []*Watch
		var ids []int64
		for range 5 {
			gone = append(gone, b.hub.WatchDeletion("k", 1, ignore))
			ids = append(ids, c.grant().WatchId)
		}
		synctest.Wait()
		gone[0].Cancel()
		c.nothing(sweepAfter / 2)
		gone[1].Cancel()
		c.nothing(sweepAfter/2 - 1)
		time.Sleep(time.Nanosecond)
		assert.Equal(t, ids[:2], []int64{c.canceled(), c.canceled()})

		began := time.Now()
		gone[2].Cancel()
		gone[3].Cancel()
		hasty.Cancel()
		assert.Equal(t, []int64{ids[2], ids[3], hastyID}, []int64{c.canceled(), c.canceled(), c.canceled()})
		assert.Zero(t, time.Since(began), "one that does not wait takes the others along")
		c.nothing(2 * sweepAfter)

		gone[4].Cancel()
		synctest.Wait()
		c.end <- nil
		c = b.accept()
		assert.Equal(t, "stays", string(c.grant().Key))
		c.nothing(time.Second)
	})
}
