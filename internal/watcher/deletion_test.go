package watcher

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
)

// A message that is sent alone costs both ends several times as much as one of many. The next stream,
// whose creations may have the same IDs, gets no cancels for those of the last.
func TestCancelsWaitForOneAnother(t *testing.T) {
	inBubble(t, benchConfig{}, func(t *testing.T, b *bench) {
		ignore := func(Update) {}
		_, _ = b.watch("stays", "", 1)
		c := b.accept()
		c.grant()
		gone := []*Watch{b.hub.Watch("of all", "", 1, ignore)}
		ids := []int64{c.grant().WatchId}
		for i := range 2 {
			gone = append(gone, b.watchDeletion(fmt.Sprint("k", i), 1, ignore))
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

// watchDeletion adds a watch of deletions that starts at a revision, like a watch from now that
// resumes.
func (b *bench) watchDeletion(key string, from int64, fn func(Update)) *Watch {
	return b.hub.watch(&Watch{hub: b.hub, fn: fn, span: newSpan(key, ""), next: from, deletions: true})
}

// Watches of the same key have separate creations, and the end of one does not end the other.
// rule: A3
func TestWatchesOfOneKeyAreIndependent(t *testing.T) {
	inBubble(t, benchConfig{}, func(t *testing.T, b *bench) {
		_, all := b.watch("k", "", 5)
		deletions := &log{t: t}
		d := b.watchDeletion("k", 7, deletions.note)
		c := b.accept()
		whole, part := c.grant(), c.grant()
		assert.Equal(t, []int64{5, 7}, []int64{whole.StartRevision, part.StartRevision})
		assert.Empty(t, whole.Filters)
		assert.Equal(t, noPuts, part.Filters, "puts cost no message")
		c.events(whole.WatchId, put("k", 8), del("k", 9))
		c.events(part.WatchId, put("k", 8), del("k", 9)) // although the request excluded puts
		synctest.Wait()
		assert.Equal(t, []int64{8, 9}, all.revisions())
		assert.Equal(t, []int64{9}, deletions.revisions())
		c.send(&pb.WatchResponse{WatchId: whole.WatchId, Canceled: true, CompactRevision: 50})
		assert.Equal(t, whole.WatchId, c.canceled())
		assert.Equal(t, Update{Compacted: 50}, all.end())
		c.events(part.WatchId, del("k", 60))
		synctest.Wait()
		assert.Equal(t, []int64{9, 60}, deletions.revisions())
		d.Cancel()
		assert.Equal(t, part.WatchId, c.canceled())
	})
}

func TestAWatchAddedWhileItsStreamEndsLearnsOfTheEnd(t *testing.T) {
	inBubble(t, benchConfig{}, func(t *testing.T, b *bench) {
		late := &log{t: t}
		b.hub.Watch("first", "", 1, func(Update) { b.watchDeletion("k", 7, late.note) })
		c := b.accept()
		first := c.grant()
		c.member.moved.Store(true)
		foreign := &pb.ResponseHeader{ClusterId: 0xbad, MemberId: 1, Revision: 9, RaftTerm: 2}
		c.send(&pb.WatchResponse{Header: foreign, WatchId: first.WatchId})
		synctest.Wait()
		assert.ErrorIs(t, late.end().Err, cluster.ErrChanged)
		assert.Equal(t, Stats{Moves: b.hub.Stats().Moves}, b.hub.Stats())
	})
}
