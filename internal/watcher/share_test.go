package watcher

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/pawl-locks/pawl/internal/cluster"
)

// watchDeletion adds a watch of deletions with a log.
func (b *bench) watchDeletion(key string, from int64) (*Watch, *log) {
	l := &log{t: b.t}
	return b.hub.WatchDeletion(key, from, l.note), l
}

// sharing has a watch of "k" from revision 5 on, created, and one of its deletion
// from revision from on.
func (b *bench) sharing(from int64) (c *call, id int64, w, d *Watch, all, deletions *log) {
	b.t.Helper()
	w, all = b.watch("k", "", 5)
	c = b.accept()
	id = c.grant().WatchId
	synctest.Wait()
	d, deletions = b.watchDeletion("k", from)
	synctest.Wait()
	return c, id, w, d, all, deletions
}

func TestAWatchOfADeletionSharesTheCreationOfOneOfAllChanges(t *testing.T) {
	inBubble(t, benchConfig{}, func(t *testing.T, b *bench) {
		c, id, w, d, all, deletions := b.sharing(7)
		assert.True(t, d.Armed())
		assert.Equal(t, Stats{Watches: 2, Streams: 1}, b.hub.Stats())
		c.events(id, put("k", 8), del("k", 9), put("k", 10))
		c.events(id, del("k", 10), del("k", 12))
		synctest.Wait()
		assert.Equal(t, []int64{8, 9, 10, 12}, all.revisions())
		require.Equal(t, []int64{9, 12}, deletions.revisions())
		assert.Equal(t, Event{Key: "k", Deleted: true, ModRevision: 9}, deletions.all()[0].Events[0])
		d.Cancel()
		c.nothing(time.Second)
		w.Cancel()
		assert.Equal(t, id, c.canceled())
		c.nothing(time.Second)
	})
}

func TestWatchesOfTheSameKeysShareACreation(t *testing.T) {
	inBubble(t, benchConfig{}, func(t *testing.T, b *bench) {
		var ws []*Watch
		var logs []*log
		add := func(key, end string, from int64) {
			w, l := b.watch(key, end, from)
			ws, logs = append(ws, w), append(logs, l)
		}
		add("k", "", 5)
		add("k", "", 9)
		add("r", "s", 7)
		c := b.accept()
		single, ranged := c.grant(), c.grant()
		assert.EqualValues(t, 5, single.StartRevision)
		assert.Equal(t, "s", string(ranged.RangeEnd))
		synctest.Wait()
		add("r", "s", 8)
		add("k", "", 6)
		c.nothing(time.Second)
		c.events(single.WatchId, put("k", 5), put("k", 8), put("k", 9))
		c.events(ranged.WatchId, put("r1", 7), put("r2", 7), put("r1", 9))
		synctest.Wait()
		for i, want := range [][]int64{{5, 8, 9}, {9}, {7, 7, 9}, {9}, {8, 9}} {
			assert.Equal(t, want, logs[i].revisions(), i)
			assert.True(t, ws[i].Armed())
			ws[i].Cancel()
		}
		assert.ElementsMatch(t, []int64{single.WatchId, ranged.WatchId}, []int64{c.canceled(), c.canceled()})
	})
}

func TestASubscriberIsNotGivenWhatWasBeforeItsRevision(t *testing.T) {
	inBubble(t, benchConfig{}, func(t *testing.T, b *bench) {
		c, id, _, _, all, deletions := b.sharing(20)
		c.events(id, del("k", 9), del("k", 19), del("k", 20))
		synctest.Wait()
		assert.Equal(t, []int64{9, 19, 20}, all.revisions())
		assert.Equal(t, []int64{20}, deletions.revisions())
	})
}

func TestAWatchThatWouldMissWhatWasDeliveredIsCreatedByItself(t *testing.T) {
	inBubble(t, benchConfig{}, func(t *testing.T, b *bench) {
		w, _ := b.watch("k", "", 5)
		c := b.accept()
		c.events(c.grant().WatchId, del("k", 9))
		synctest.Wait()
		d, deletions := b.watchDeletion("k", 9)
		late := c.grant()
		assert.EqualValues(t, 9, late.StartRevision)
		c.events(late.WatchId, del("k", 9))
		synctest.Wait()
		assert.Equal(t, []int64{9}, deletions.revisions())
		w.Cancel()
		d.Cancel()
		c.canceled()
		c.canceled()
	})
}

func TestAWatchOfAllChangesDoesNotShareACreationOfDeletions(t *testing.T) {
	inBubble(t, benchConfig{}, func(t *testing.T, b *bench) {
		_, deletions := b.watchDeletion("k", 5)
		c := b.accept()
		r := c.grant()
		assert.Equal(t, noPuts, r.Filters)
		synctest.Wait()
		_, all := b.watch("k", "", 5)
		own := c.grant()
		assert.Empty(t, own.Filters)
		c.events(own.WatchId, put("k", 6), del("k", 7))
		c.events(r.WatchId, del("k", 7))
		synctest.Wait()
		assert.Equal(t, []int64{6, 7}, all.revisions())
		require.Equal(t, []int64{7}, deletions.revisions())
	})
}

func TestACreationEndsWithItsLastSubscriber(t *testing.T) {
	inBubble(t, benchConfig{}, func(t *testing.T, b *bench) {
		c, id, w, d1, all, deletions := b.sharing(7)
		_, _ = b.watch("stays", "", 1)
		c.grant()
		d2, _ := b.watchDeletion("k", 7)
		w.Cancel()
		c.nothing(time.Second)
		d3, late := b.watch("k", "", 7) // a subscriber that comes meanwhile shares it
		c.events(id, put("k", 8), del("k", 9))
		synctest.Wait()
		assert.Empty(t, all.all())
		assert.Equal(t, []int64{9}, deletions.revisions())
		assert.Equal(t, []int64{8, 9}, late.revisions())
		d2.Cancel()
		d1.Cancel()
		c.nothing(time.Second)
		d3.Cancel()
		assert.Equal(t, id, c.canceled())
		assert.Equal(t, Stats{Watches: 1, Streams: 1}, b.hub.Stats())
	})
}

func TestWhoSubscribesBeforeTheCancelGoesOutKeepsTheCreation(t *testing.T) {
	inBubble(t, benchConfig{}, func(t *testing.T, b *bench) {
		w, _ := b.watch("k", "", 5)
		c := b.accept()
		id := c.grant().WatchId
		synctest.Wait()
		w.Cancel()
		time.Sleep(sweepAfter - 1)
		again, l := b.watch("k", "", 5)
		assert.True(t, again.Armed())
		c.nothing(time.Second)
		c.events(id, put("k", 6))
		synctest.Wait()
		assert.Equal(t, []int64{6}, l.revisions())
		again.Cancel()
		c.nothing(sweepAfter - 1)
		time.Sleep(time.Nanosecond)
		assert.Equal(t, id, c.canceled())
		c.nothing(time.Second)
	})
}

func TestWatchesThatWaitForAStreamAreCreatedAsOne(t *testing.T) {
	inBubble(t, benchConfig{}, func(t *testing.T, b *bench) {
		_, _ = b.watch(fullKey, "", 1)
		c := b.accept()
		first := c.create()
		_, deletions := b.watchDeletion("k", 7)
		w, _ := b.watch("k", "", 5)
		synctest.Wait()
		c.created(first.WatchId)
		r := c.grant()
		assert.EqualValues(t, 5, r.StartRevision)
		assert.Empty(t, r.Filters)
		c.nothing(time.Second)
		w.Cancel()
		c.events(r.WatchId, del("k", 7))
		synctest.Wait()
		assert.Equal(t, []int64{7}, deletions.revisions())
	})
}

func TestATopicIsCreatedAgainForThoseWhoAreLeft(t *testing.T) {
	inBubble(t, benchConfig{}, func(t *testing.T, b *bench) {
		c, id, w, d, _, deletions := b.sharing(9)
		c.events(id, put("k", 6))
		synctest.Wait()
		w.Cancel()
		c.end <- nil
		c = b.accept()
		again := c.grant()
		assert.EqualValues(t, 9, again.StartRevision, "nobody waits for what is before")
		assert.Equal(t, noPuts, again.Filters)
		c.nothing(time.Second)
		c.events(again.WatchId, del("k", 9))
		synctest.Wait()
		assert.Equal(t, []int64{9}, deletions.revisions())
		d.Cancel()
		assert.Equal(t, again.WatchId, c.canceled())
		synctest.Wait()
		assert.Equal(t, 0, b.hub.Stats().Watches)
		<-c.gone
	})
}

func TestACompactionEndsOnlyTheSubscribersThatMissEvents(t *testing.T) {
	inBubble(t, benchConfig{members: 2}, func(t *testing.T, b *bench) {
		c, id, w, d, all, deletions := b.sharing(60)
		c.send(&pb.WatchResponse{WatchId: id, Canceled: true, CompactRevision: 50})
		own := c.request()
		if own.GetCancelRequest() != nil { // or etcd keeps it in its books
			own = c.request()
		} else {
			assert.Equal(t, id, c.canceled())
		}
		r := own.GetCreateRequest()
		assert.EqualValues(t, 60, r.StartRevision)
		c.created(r.WatchId)
		c.events(r.WatchId, del("k", 61))
		synctest.Wait()
		assert.Equal(t, Update{Compacted: 50}, all.end())
		assert.Equal(t, []int64{61}, deletions.revisions())
		d.Cancel()
		w.Cancel()
		time.Sleep(time.Minute)
		assert.Equal(t, Stats{Moves: b.hub.Stats().Moves}, b.hub.Stats(), "no watch and no stream is left")
	})
}

func TestARefusalWithACompactionEndsWhoMissesEvents(t *testing.T) {
	inBubble(t, benchConfig{}, func(t *testing.T, b *bench) {
		_, all := b.watch("k", "", 5)
		_, later := b.watch("k", "", 50)
		c := b.accept()
		r := c.create()
		c.send(&pb.WatchResponse{WatchId: r.WatchId, Created: true, Canceled: true, CompactRevision: 50})
		assert.EqualValues(t, 50, c.grant().StartRevision)
		synctest.Wait()
		assert.Equal(t, Update{Compacted: 50}, all.end())
		assert.Empty(t, later.all())
	})
}

func TestATopicThatTheServerCancelsIsCreatedElsewhereForAll(t *testing.T) {
	for _, cancelled := range []bool{false, true} {
		inBubble(t, benchConfig{members: 2}, func(t *testing.T, b *bench) {
			c, id, w, d, all, deletions := b.sharing(7)
			if cancelled {
				w.Cancel()
			}
			c.send(&pb.WatchResponse{WatchId: id, Canceled: true, CancelReason: "because"})
			next := b.accept()
			assert.NotEqual(t, c.member.index, next.member.index)
			next.events(next.grant().WatchId, del("k", 9))
			synctest.Wait()
			assert.Equal(t, []int64{9}, deletions.revisions())
			assert.Equal(t, !cancelled, len(all.revisions()) == 1)
			d.Cancel()
			w.Cancel()
			time.Sleep(time.Minute)
			assert.Equal(t, Stats{Moves: b.hub.Stats().Moves}, b.hub.Stats(), "no watch and no stream is left")
		})
	}
}

func TestADenialIsForAllSubscribers(t *testing.T) {
	inBubble(t, benchConfig{members: 2}, func(t *testing.T, b *bench) {
		_, all := b.watch("k", "", 5)
		_, deletions := b.watchDeletion("k", 7)
		for range 2 {
			c := b.accept()
			c.create()
			c.refuse(rpctypes.ErrGRPCPermissionDenied.Error())
		}
		synctest.Wait()
		assert.True(t, cluster.IsPermissionDenied(all.end().Err))
		assert.True(t, cluster.IsPermissionDenied(deletions.end().Err))
		assert.Zero(t, b.hub.Stats().Watches)
	})
}

func TestAllSubscribersLearnOfTheHubsEnd(t *testing.T) {
	inBubble(t, benchConfig{}, func(t *testing.T, b *bench) {
		_, _, w, _, _, deletions := b.sharing(7)
		w.Cancel()
		_, all := b.watch("k", "", 5)
		_, more := b.watchDeletion("k", 7)
		b.hub.Close()
		for _, l := range []*log{deletions, all, more} {
			assert.ErrorIs(t, l.end().Err, cluster.ErrClosed)
		}
	})
}

func TestAWatchAddedWhileItsTopicsStreamEndsLearnsOfTheEnd(t *testing.T) {
	inBubble(t, benchConfig{}, func(t *testing.T, b *bench) {
		late := &log{t: t}
		b.hub.Watch("first", "", 1, func(u Update) { b.hub.WatchDeletion("k", 7, late.note) })
		_, all := b.watch("k", "", 5)
		c := b.accept()
		first := c.grant()
		c.grant()
		c.member.moved.Store(true)
		foreign := &pb.ResponseHeader{ClusterId: 0xbad, MemberId: 1, Revision: 9, RaftTerm: 2}
		c.send(&pb.WatchResponse{Header: foreign, WatchId: first.WatchId})
		synctest.Wait()
		assert.ErrorIs(t, all.end().Err, cluster.ErrChanged)
		assert.ErrorIs(t, late.end().Err, cluster.ErrChanged)
		assert.Zero(t, b.hub.Stats().Watches)
		assert.Zero(t, b.hub.Stats().Streams)
	})
}

func TestSubscribersTakeNoRoomOnAStream(t *testing.T) {
	inBubble(t, benchConfig{}, func(t *testing.T, b *bench) {
		var ws []*Watch
		for i := range perStream {
			w, _ := b.watch(fmt.Sprint(i), "", 1)
			ws = append(ws, w)
		}
		c := b.accept()
		for range perStream {
			c.grant()
		}
		for i := range perStream {
			w, _ := b.watchDeletion(fmt.Sprint(i), 1)
			ws = append(ws, w)
		}
		c.nothing(time.Second)
		assert.Equal(t, Stats{Watches: 2 * perStream, Streams: 1}, b.hub.Stats())
		for _, w := range ws {
			w.Cancel()
		}
		<-c.gone
		assert.Equal(t, Stats{}, b.hub.Stats())
	})
}
