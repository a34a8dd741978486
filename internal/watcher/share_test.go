package watcher

import (
	"fmt"
	"math/rand/v2"
	"slices"
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

// riding has a watch of "k" from revision 5 on, created, and one of its deletion
// from revision from on.
func (b *bench) riding(from int64) (c *call, id int64, w, r *Watch, all, deletions *log) {
	b.t.Helper()
	w, all = b.watch("k", "", 5)
	c = b.accept()
	id = c.grant().WatchId
	r, deletions = b.watchDeletion("k", from)
	synctest.Wait()
	return c, id, w, r, all, deletions
}

func TestAWatchOfADeletionSharesTheCreationOfOneOfAllChanges(t *testing.T) {
	inBubble(t, benchConfig{}, func(t *testing.T, b *bench) {
		c, id, w, r, all, deletions := b.riding(7)
		assert.True(t, r.Armed())
		assert.Equal(t, Stats{Watches: 2, Streams: 1}, b.hub.Stats())
		c.events(id, put("k", 8), del("k", 9), put("k", 10))
		c.events(id, del("k", 10), del("k", 12))
		synctest.Wait()
		assert.Equal(t, []int64{8, 9, 10, 12}, all.revisions())
		require.Equal(t, []int64{9, 12}, deletions.revisions())
		assert.Equal(t, Event{Key: "k", Deleted: true, Value: []byte("k@8"), ModRevision: 9}, deletions.all()[0].Events[0])
		assert.Equal(t, "k@10", string(deletions.all()[1].Events[0].Value))
		r.Cancel()
		c.nothing(time.Second)
		w.Cancel()
		assert.Equal(t, id, c.canceled())
		c.nothing(time.Second)
	})
}

func TestARiderIsNotToldWhatWasBeforeItsRevision(t *testing.T) {
	inBubble(t, benchConfig{}, func(t *testing.T, b *bench) {
		c, id, _, _, all, deletions := b.riding(20)
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
		r, deletions := b.watchDeletion("k", 9)
		late := c.grant()
		assert.EqualValues(t, 9, late.StartRevision)
		c.events(late.WatchId, del("k", 9))
		synctest.Wait()
		assert.Equal(t, []int64{9}, deletions.revisions())
		w.Cancel()
		r.Cancel()
		c.canceled()
		c.canceled()
	})
}

func TestACancelledWatchStaysForItsRidersAndGoesWithTheLast(t *testing.T) {
	inBubble(t, benchConfig{}, func(t *testing.T, b *bench) {
		c, id, w, r1, all, deletions := b.riding(7)
		_, _ = b.watch("stays", "", 1)
		c.grant()
		r2, _ := b.watchDeletion("k", 7)
		synctest.Wait()
		w.Cancel()
		c.nothing(time.Second)
		r3, _ := b.watchDeletion("k", 7)
		own := c.grant() // on what is cancelled nobody begins to ride
		assert.Equal(t, "k", string(own.Key))
		c.events(id, put("k", 8), del("k", 9))
		c.events(own.WatchId, del("k", 9))
		synctest.Wait()
		assert.Empty(t, all.all())
		assert.Equal(t, []int64{9}, deletions.revisions())
		r2.Cancel()
		c.nothing(time.Second)
		r1.Cancel()
		c.nothing(sweepAfter - 1)
		time.Sleep(time.Nanosecond)
		assert.Equal(t, id, c.canceled(), "it waits as its riders' cancels would")
		r3.Cancel()
		assert.Equal(t, own.WatchId, c.canceled())
		c.nothing(time.Second)
		assert.Equal(t, Stats{Watches: 1, Streams: 1}, b.hub.Stats())
	})
}

func TestAWatchAndItsRiderMeetInTheQueue(t *testing.T) {
	inBubble(t, benchConfig{}, func(t *testing.T, b *bench) {
		_, _ = b.watch("first", "", 1)
		c := b.accept()
		first := c.create()
		_, deletions := b.watchDeletion("k", 7)
		w, _ := b.watch("k", "", 5)
		synctest.Wait()
		c.created(first.WatchId)
		r := c.grant()
		assert.EqualValues(t, 5, r.StartRevision)
		c.nothing(time.Second)
		w.Cancel()
		c.events(r.WatchId, del("k", 7))
		synctest.Wait()
		assert.Equal(t, []int64{7}, deletions.revisions())
	})
}

func TestACancelledWatchThatHasRidersIsCreatedOnTheNextStreamToo(t *testing.T) {
	inBubble(t, benchConfig{}, func(t *testing.T, b *bench) {
		c, _, w, r, _, deletions := b.riding(7)
		w.Cancel()
		synctest.Wait()
		c.end <- nil
		c = b.accept()
		again := c.grant()
		assert.EqualValues(t, 5, again.StartRevision)
		c.nothing(time.Second)
		c.events(again.WatchId, del("k", 7))
		synctest.Wait()
		assert.Equal(t, []int64{7}, deletions.revisions())
		r.Cancel()
		assert.Equal(t, again.WatchId, c.canceled())
		synctest.Wait()
		assert.Equal(t, 0, b.hub.Stats().Watches)
		<-c.gone
	})
}

func TestRidersAreCreatedByThemselvesWhenTheirCarrierEnds(t *testing.T) {
	ends := map[string]func(c *call, id int64){
		"compacted": func(c *call, id int64) {
			c.send(&pb.WatchResponse{WatchId: id, Canceled: true, CompactRevision: 50})
		},
		"cancelled by the server": func(c *call, id int64) {
			c.send(&pb.WatchResponse{WatchId: id, Canceled: true, CancelReason: "because"})
		},
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			for _, cancelled := range []bool{false, true} {
				inBubble(t, benchConfig{members: 2}, func(t *testing.T, b *bench) {
					c, id, w, r, _, deletions := b.riding(60)
					if cancelled {
						w.Cancel()
						synctest.Wait()
					}
					end(c, id)
					if name == "compacted" {
						assert.Equal(t, id, c.canceled(), "or etcd keeps it in its books")
					}
					own := c.grant()
					assert.EqualValues(t, 60, own.StartRevision)
					c.events(own.WatchId, del("k", 61))
					synctest.Wait()
					assert.Equal(t, []int64{61}, deletions.revisions())
					r.Cancel()
					w.Cancel()
					time.Sleep(time.Minute)
					assert.Equal(t, Stats{Moves: b.hub.Stats().Moves}, b.hub.Stats(), "no watch and no stream is left")
				})
			}
		})
	}
}

// What is put while nobody rides is not noted, so what was noted before is forgotten.
func TestALaterRiderIsNotGivenAnEarlierValue(t *testing.T) {
	inBubble(t, benchConfig{members: 2}, func(t *testing.T, b *bench) {
		c, id, _, _, all, _ := b.riding(7)
		c.events(id, put("k", 8))
		c.send(&pb.WatchResponse{WatchId: id, Canceled: true, CancelReason: "because"})
		c.grant() // of the rider, by itself
		next := b.accept()
		id = next.grant().WatchId
		next.events(id, put("k", 9)) // nobody rides
		synctest.Wait()
		_, deletions := b.watchDeletion("k", 10)
		synctest.Wait()
		next.events(id, del("k", 10))
		synctest.Wait()
		assert.Equal(t, []int64{8, 9, 10}, all.revisions())
		require.Equal(t, []int64{10}, deletions.revisions())
		assert.Empty(t, deletions.all()[0].Events[0].Value)
	})
}

func TestARefusalOfTheCarrierIsNotItsRiders(t *testing.T) {
	inBubble(t, benchConfig{}, func(t *testing.T, b *bench) {
		_, _ = b.watch("first", "", 1)
		c := b.accept()
		first := c.create()
		w, all := b.watch("k", "", 5)
		_, deletions := b.watchDeletion("k", 7)
		synctest.Wait()
		c.created(first.WatchId)
		c.create()
		c.refuse(rpctypes.ErrGRPCPermissionDenied.Error())
		own := c.grant()
		assert.EqualValues(t, 7, own.StartRevision)
		c.events(own.WatchId, del("k", 7))
		next := b.accept() // asked for elsewhere
		next.create()
		next.refuse(rpctypes.ErrGRPCPermissionDenied.Error())
		synctest.Wait()
		assert.True(t, cluster.IsPermissionDenied(all.end().Err))
		assert.Equal(t, []int64{7}, deletions.revisions())
		w.Cancel()
	})
}

func TestRidersAreToldOfTheHubsEnd(t *testing.T) {
	inBubble(t, benchConfig{}, func(t *testing.T, b *bench) {
		_, _, w, _, _, deletions := b.riding(7)
		w.Cancel()
		_, _ = b.watch("k", "", 5)
		_, more := b.watchDeletion("k", 7)
		b.hub.Close()
		assert.ErrorIs(t, deletions.end().Err, cluster.ErrClosed)
		assert.ErrorIs(t, more.end().Err, cluster.ErrClosed)
	})
}

func TestAWatchAddedWhileItsCarriersStreamEndsIsToldTheEnd(t *testing.T) {
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

func TestRidersTakeNoRoomOnAStream(t *testing.T) {
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

func TestWatchesThatCouldNotRideFindStreamsWithRoom(t *testing.T) {
	inBubble(t, benchConfig{}, func(t *testing.T, b *bench) {
		w, _ := b.watch("k", "", 5)
		ws := []*Watch{w}
		c := b.accept()
		c.events(c.grant().WatchId, del("k", 9))
		synctest.Wait()
		go c.grantAll()
		b.serveAll()
		for range 2 * perStream {
			w, _ := b.watchDeletion("k", 6)
			ws = append(ws, w)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Equal(t, Stats{Watches: 1 + 2*perStream, Streams: 3}, b.hub.Stats())
		for _, s := range b.hub.streams {
			assert.LessOrEqual(t, s.load-s.riders, perStream)
		}
		for _, w := range ws {
			require.True(t, w.Armed())
			w.Cancel()
		}
		time.Sleep(time.Minute)
		assert.Equal(t, Stats{}, b.hub.Stats())
	})
}

// Watches of all kinds come and go, keys too, and streams are cut: every watch
// learns every deletion from its revision on, once.
func TestWhoeverRidesOnWhomMissesNothing(t *testing.T) {
	onRealEtcd(t, 300, func(t *testing.T, r *real) {
		const keys = 4
		type one struct {
			w    *Watch
			l    *log
			key  string
			from int64
			all  bool
		}
		h := r.hub("")
		watchers := metric(t, "etcd_debugging_mvcc_watcher_total", "") // of servers that are gone
		rev := r.put("k", "the beginning")
		first := rev
		var truth []Event
		var on, off []one
		for range 1500 {
			key := fmt.Sprint("k", rand.IntN(keys))
			switch n := rand.IntN(10); {
			case n < 3:
				rev = r.put(key, "v")
				truth = append(truth, Event{Key: key, ModRevision: rev})
			case n < 5:
				if now := r.remove(key); now > rev {
					rev = now
					truth = append(truth, Event{Key: key, ModRevision: rev, Deleted: true})
				}
			case n < 8:
				o := one{l: &log{t: t}, key: key, from: max(rev+1-rand.Int64N(3), first), all: rand.IntN(2) == 0}
				if o.all {
					o.w = h.Watch(key, "", o.from, o.l.note)
				} else {
					o.w = h.WatchDeletion(key, o.from, o.l.note)
				}
				on = append(on, o)
			case n < 9 && len(on) > 0:
				i := rand.IntN(len(on))
				on[i].w.Cancel()
				off = append(off, on[i])
				on = append(on[:i], on[i+1:]...)
			case rand.IntN(20) == 0:
				r.cut()
			}
			if rand.IntN(3) == 0 {
				time.Sleep(rand.N(150 * time.Millisecond))
			}
		}
		time.Sleep(30 * time.Second)
		want := func(o one) (revs []int64) {
			for _, e := range truth {
				if e.Key == o.key && e.ModRevision >= o.from && (o.all || e.Deleted) {
					revs = append(revs, e.ModRevision)
				}
			}
			return revs
		}
		for _, o := range on {
			require.Equal(t, want(o), o.l.revisions(), o)
			o.w.Cancel()
		}
		for _, o := range off {
			got := o.l.revisions()
			whole := want(o)
			require.LessOrEqual(t, len(got), len(whole), o)
			require.True(t, slices.Equal(whole[:len(got)], got), "%v: got %v of %v", o, got, whole)
		}
		assert.NotZero(t, h.Stats().Moves)
		time.Sleep(10 * time.Second)
		assert.Equal(t, Stats{Moves: h.Stats().Moves}, h.Stats())
		assert.Equal(t, watchers, metric(t, "etcd_debugging_mvcc_watcher_total", ""))
	})
}
