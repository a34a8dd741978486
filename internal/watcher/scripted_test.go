package watcher

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawl-locks/pawl/internal/backoff"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

func TestEventsComeInOrderOnceWhateverTheServerRepeats(t *testing.T) { // hazard W5
	inBubble(t, benchConfig{}, func(t *testing.T, b *bench) {
		_, l := b.watch("a", "c", 5)
		c := b.accept()
		id := c.grant().WatchId
		c.events(id, put("a", 5), put("b", 6), del("a", 6), put("a", 9))
		c.events(id, put("a", 5), put("b", 6), del("a", 6), put("a", 9)) // duplicated
		c.events(id, put("b", 3), put("b", 4))                           // from before the beginning
		c.events(id, put("b", 8))                                        // back in time
		c.events(id, put("a", 12), put("b", 11), put("a", 12))           // out of order, and twice in one answer
		c.events(id, put("d", 13), put("a", 14))                         // not ours
		synctest.Wait()
		assert.Equal(t, []int64{5, 6, 6, 9, 11, 12, 14}, l.revisions())
		got := l.all()[0]
		assert.Equal(t, Event{Key: "a", Value: []byte("a@5"), CreateRevision: 1, ModRevision: 5}, got.Events[0])
		assert.Equal(t, Event{Key: "a", Deleted: true, ModRevision: 6}, got.Events[1])
		assert.EqualValues(t, 9, got.Revision)
	})
}

func TestOnlyDeliveredEventsMoveTheResumption(t *testing.T) { // hazard W6
	inBubble(t, benchConfig{}, func(t *testing.T, b *bench) {
		b.watch("a", "", 5)
		c := b.accept()
		r := c.create()
		c.send(&pb.WatchResponse{Header: c.member.header(1000), WatchId: r.WatchId, Created: true})
		c.send(&pb.WatchResponse{Header: c.member.header(2000), WatchId: -1})
		c.send(&pb.WatchResponse{Header: c.member.header(3000), WatchId: r.WatchId})
		c.send(&pb.WatchResponse{Header: c.member.header(4000), WatchId: r.WatchId, Events: []*mvccpb.Event{put("a", 7)}})
		c.send(&pb.WatchResponse{Header: c.member.header(5000), WatchId: -1})
		synctest.Wait()
		c.end <- nil
		assert.EqualValues(t, 8, b.accept().create().StartRevision)
	})
}

func TestTheFirstRevisionIsTheOneGiven(t *testing.T) { // hazard A9
	inBubble(t, benchConfig{}, func(t *testing.T, b *bench) {
		b.watch("a", "", 42)
		b.watch("b", "c", -7)
		c := b.accept()
		assert.EqualValues(t, 42, c.grant().StartRevision)
		r := c.grant()
		assert.EqualValues(t, 1, r.StartRevision)
		assert.Equal(t, []byte("c"), r.RangeEnd)
		assert.False(t, r.Fragment || r.PrevKv || r.ProgressNotify)
	})
}

func TestAStreamThatNeverAcknowledgesIsLeftAfterThreeSeconds(t *testing.T) { // hazard W2
	inBubble(t, benchConfig{members: 2}, func(t *testing.T, b *bench) {
		w, _ := b.watch("a", "", 5)
		c := b.accept()
		c.create()
		asked := time.Now()
		next := b.accept()
		assert.Equal(t, 3*time.Second, next.at.Sub(asked))
		assert.NotEqual(t, c.member.index, next.member.index, "another member")
		assert.False(t, w.Armed())
		next.grant()
		synctest.Wait()
		assert.True(t, w.Armed())
		<-c.gone
	})
}

func TestASilentStreamIsProbedAndThenLeft(t *testing.T) { // hazard W2
	inBubble(t, benchConfig{members: 2}, func(t *testing.T, b *bench) {
		_, l := b.watch("a", "", 5)
		c := b.accept()
		id := c.grant().WatchId
		c.events(id, put("a", 6))
		quiet := time.Now()
		echo := c.create()
		assert.Equal(t, 5*time.Second, time.Since(quiet))
		assert.Equal(t, echo.Key, echo.RangeEnd, "an empty range, which is refused")
		next := b.accept()
		assert.Equal(t, 8*time.Second, next.at.Sub(quiet))
		assert.NotEqual(t, c.member.index, next.member.index)
		r := next.grant()
		assert.EqualValues(t, 7, r.StartRevision)
		next.events(r.WatchId, put("a", 7))
		synctest.Wait()
		assert.Equal(t, []int64{6, 7}, l.revisions())
	})
}

func TestAnyAnswerToAnEchoKeepsASilentStream(t *testing.T) {
	for name, reply := range map[string]func(c *call, echo int64){
		"refused": func(c *call, _ int64) { c.refuse("mvcc: watcher range is empty") },
		"refused for its token": func(c *call, _ int64) { // no watch needs the token until it is created again
			c.refuse(rpctypes.ErrGRPCInvalidAuthToken.Error())
		},
		"taken for a watch": func(c *call, echo int64) {
			c.created(echo)
			assert.Equal(c.t, echo, c.canceled())
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, benchConfig{members: 2, user: "u"}, func(t *testing.T, b *bench) {
				_, l := b.watch("a", "", 5)
				c := b.accept()
				id := c.grant().WatchId
				for range 100 {
					reply(c, c.create().WatchId)
				}
				c.events(id, put("a", 5))
				synctest.Wait()
				assert.Equal(t, []int64{5}, l.revisions())
				assert.Zero(t, b.hub.Stats().Moves)
			})
		})
	}
}

func TestCreationsArePipelinedAndARefusalIsTheFirstUnansweredOnes(t *testing.T) { // hazard W4
	inBubble(t, benchConfig{}, func(t *testing.T, b *bench) {
		w1, l1 := b.watch("a", "", 1)
		w2, l2 := b.watch("b", "", 1)
		w3, l3 := b.watch("c", "", 1)
		c := b.accept()
		r1, r2, r3 := c.create(), c.create(), c.create()
		assert.Equal(t, "b", string(r2.Key))
		assert.Equal(t, "c", string(r3.Key))
		c.created(r1.WatchId)
		c.refuse("etcdserver: something else")
		c.created(r3.WatchId)
		synctest.Wait()
		assert.True(t, w1.Armed())
		assert.False(t, w2.Armed())
		assert.True(t, w3.Armed())
		c2 := b.accept() // the refused creation is tried elsewhere
		again := c2.grant()
		assert.Equal(t, "b", string(again.Key))
		c2.events(again.WatchId, put("b", 2))
		c.events(r1.WatchId, put("a", 3))
		c.events(r3.WatchId, put("c", 4))
		synctest.Wait()
		assert.Equal(t, []int64{3}, l1.revisions())
		assert.Equal(t, []int64{2}, l2.revisions())
		assert.Equal(t, []int64{4}, l3.revisions())
	})
}

func TestAStreamWith500WatchesComesBackInAFewRoundTrips(t *testing.T) { // hazard W4
	const trip = 40 * time.Millisecond
	inBubble(t, benchConfig{members: 2}, func(t *testing.T, b *bench) {
		var ws []*Watch
		for i := range 500 {
			w, _ := b.watch(fmt.Sprintf("some/lock/%032d", i), "", 1)
			ws = append(ws, w)
		}
		c := b.accept()
		created := c.grantAfter(trip)
		synctest.Wait()
		<-created
		assert.LessOrEqual(t, time.Since(c.at), 4*trip)
		c.end <- status.Error(codes.Unavailable, "gone")
		c = b.accept()
		<-c.grantAfter(trip)
		assert.LessOrEqual(t, time.Since(c.at), 4*trip)
		synctest.Wait()
		for _, w := range ws {
			require.True(t, w.Armed())
		}
		assert.EqualValues(t, 1, b.hub.Stats().Moves)
	})
}

// grantAfter acknowledges 500 creations, each d after it came, and then closes what it returns.
func (c *call) grantAfter(d time.Duration) <-chan struct{} {
	done := make(chan struct{})
	type due struct {
		id int64
		at time.Time
	}
	dues := make(chan due, 500)
	go func() {
		for range 500 {
			dues <- due{c.create().WatchId, time.Now().Add(d)}
		}
	}()
	go func() {
		defer close(done)
		for range 500 {
			d := <-dues
			time.Sleep(time.Until(d.at))
			c.created(d.id)
		}
	}()
	return done
}

// A server that answers in a different order from the requests cannot be understood, because a refusal
// could be for any of them.
func TestAnAnswerOutOfOrderEndsTheStream(t *testing.T) {
	inBubble(t, benchConfig{members: 2}, func(t *testing.T, b *bench) {
		b.watch("a", "", 1)
		b.watch("b", "", 1)
		c := b.accept()
		c.create()
		c.created(c.create().WatchId)
		<-c.gone
		next := b.accept()
		assert.NotEqual(t, c.member.index, next.member.index)
		assert.Equal(t, "a", string(next.grant().Key))
		assert.Equal(t, "b", string(next.grant().Key))
	})
}

// fullKey is so long that no other creation may be unanswered at the same time.
var fullKey = strings.Repeat("x", maxUnanswered-perCreation)

func TestNoMoreIsUnansweredThanGRPCBuffers(t *testing.T) {
	inBubble(t, benchConfig{}, func(t *testing.T, b *bench) {
		long := strings.Repeat("k", 10<<10)
		for i := range 9 {
			b.watch(fmt.Sprint(i, long), "", 1)
		}
		c := b.accept()
		var unanswered []int64
		for range 3 {
			unanswered = append(unanswered, c.create().WatchId)
		}
		for range 6 {
			c.nothing(time.Second)
			c.created(unanswered[0])
			unanswered = append(unanswered[1:], c.create().WatchId)
		}
	})
}

func TestEachCreationIsGivenThreeSecondsAfterTheAnswerBefore(t *testing.T) { // hazard W2
	inBubble(t, benchConfig{members: 2}, func(t *testing.T, b *bench) {
		for i := range 4 {
			b.watch(fmt.Sprint(i), "", 1)
		}
		c := b.accept()
		var ids []int64
		for range 4 {
			ids = append(ids, c.create().WatchId)
		}
		for _, id := range ids[:3] {
			time.Sleep(answerWithin - 1)
			c.created(id)
		}
		answered := time.Now()
		<-c.gone
		assert.Equal(t, answerWithin, time.Since(answered))
	})
}

func TestAMemberIsNotBlamedForATokenThatDoesNotCome(t *testing.T) {
	var out bytes.Buffer
	var hangs atomic.Bool
	cfg := benchConfig{user: "u", logger: slog.New(slog.NewTextHandler(&out, nil)), onAuth: func(ctx context.Context) {
		if hangs.Load() {
			<-ctx.Done()
		}
	}}
	inBubble(t, cfg, func(t *testing.T, b *bench) {
		_, l := b.watch("a", "", 1)
		c := b.accept()
		c.create()
		hangs.Store(true)
		c.refuse(rpctypes.ErrGRPCInvalidAuthToken.Error())
		time.Sleep(4 * time.Minute)
		hangs.Store(false)
		c = b.accept()
		c.events(c.grant().WatchId, put("a", 2))
		synctest.Wait()
		assert.Equal(t, []int64{2}, l.revisions())
		b.hub.Close()
		require.NoError(t, b.cluster.Close())
		assert.Contains(t, out.String(), "etcd member failing", "for the token")
		assert.NotContains(t, out.String(), errSilent.Error())
	})
}

func TestWatchIDsAreNeverUsedTwiceOnAStream(t *testing.T) {
	inBubble(t, benchConfig{}, func(t *testing.T, b *bench) {
		seen := map[int64]bool{0: true}
		keep, _ := b.watch("keep", "", 1)
		c := b.accept()
		seen[c.grant().WatchId] = true
		for range 20 {
			w, _ := b.watch("a", "", 1)
			id := c.grant().WatchId
			assert.False(t, seen[id])
			seen[id] = true
			synctest.Wait()
			w.Cancel()
			assert.Equal(t, id, c.canceled())
		}
		keep.Cancel()
	})
}

func TestCompactionEndsOnlyItsOwnWatch(t *testing.T) { // hazards W3, W8
	inBubble(t, benchConfig{}, func(t *testing.T, b *bench) {
		_, l1 := b.watch("a", "", 5)
		_, l2 := b.watch("b", "", 5)
		c := b.accept()
		id1, id2 := c.grant().WatchId, c.grant().WatchId
		c.send(&pb.WatchResponse{WatchId: id1, Canceled: true, CompactRevision: 50})
		assert.Equal(t, id1, c.canceled(), "or etcd keeps it in its books")
		c.send(&pb.WatchResponse{WatchId: id1, Canceled: true})
		c.events(id2, put("b", 60))
		synctest.Wait()
		assert.Equal(t, Update{Compacted: 50}, l1.end())
		assert.Equal(t, []int64{60}, l2.revisions())
		assert.Equal(t, Stats{Watches: 1, Streams: 1}, b.hub.Stats())
	})
}

func TestACompactionThatLosesNothingIsNotReported(t *testing.T) {
	inBubble(t, benchConfig{}, func(t *testing.T, b *bench) {
		_, l := b.watch("a", "", 50)
		c := b.accept()
		c.send(&pb.WatchResponse{WatchId: c.grant().WatchId, Canceled: true, CompactRevision: 50})
		assert.EqualValues(t, 50, b.accept().grant().StartRevision)
		assert.Empty(t, l.all())
	})
}

func TestACancellationByTheServerEndsNoWatch(t *testing.T) { // hazard W3
	inBubble(t, benchConfig{}, func(t *testing.T, b *bench) {
		_, l1 := b.watch("a", "", 5)
		_, l2 := b.watch("b", "", 5)
		c := b.accept()
		id1, id2 := c.grant().WatchId, c.grant().WatchId
		c.events(id1, put("a", 6))
		c.send(&pb.WatchResponse{WatchId: id1, Canceled: true, CancelReason: "because"})
		c.events(id2, put("b", 7))
		c2 := b.accept()
		r := c2.grant()
		assert.EqualValues(t, 7, r.StartRevision)
		c2.events(r.WatchId, put("a", 8))
		synctest.Wait()
		assert.Equal(t, []int64{6, 8}, l1.revisions())
		assert.Equal(t, []int64{7}, l2.revisions())
	})
}

func TestAWatchRefusedAgainAndAgainIsTriedAtMostOnceASecond(t *testing.T) {
	inBubble(t, benchConfig{members: 3}, func(t *testing.T, b *bench) {
		_, l := b.watch("a", "", 5)
		begin := time.Now()
		served, stop := make(chan int), make(chan struct{})
		go func() {
			n := 0
			defer func() { served <- n }()
			for {
				select {
				case c := <-b.streams:
					go func() {
						for {
							select {
							case r := <-c.reqs:
								if r.GetCreateRequest() != nil {
									_ = c.stream.Send(&pb.WatchResponse{Header: c.member.header(1), WatchId: -1, Created: true, Canceled: true, CancelReason: "no"})
								}
							case <-c.gone:
								return
							}
						}
					}()
					n++
				case <-stop:
					return
				}
			}
		}()
		time.Sleep(5 * time.Minute)
		close(stop)
		n := <-served
		assert.Less(t, n, 10*60, "streams within %v", time.Since(begin))
		assert.Empty(t, l.all())
	})
}

// Hazard W3: whatever the code with which a stream ends, and whenever it does, its watches continue.
func TestEveryStatusAtEveryStageIsResumed(t *testing.T) {
	stages := map[string]func(b *bench, end error) *call{ // returns the next stream
		"at open": func(b *bench, _ error) *call { return b.accept() },
		"at create": func(b *bench, end error) *call {
			c := b.accept()
			c.create()
			c.end <- end
			return b.accept()
		},
		"mid-stream": func(b *bench, end error) *call {
			c := b.accept()
			id := c.grant().WatchId
			c.grant()
			c.events(id, put("a", 9))
			synctest.Wait()
			c.end <- end
			return b.accept()
		},
	}
	ends := []error{rpctypes.ErrGRPCNoLeader, rpctypes.ErrGRPCInvalidAuthToken, rpctypes.ErrGRPCAuthOldRevision, rpctypes.ErrGRPCUserEmpty, nil}
	for code := codes.Canceled; code <= codes.Unauthenticated; code++ {
		ends = append(ends, status.Error(code, "scripted"))
	}
	for stage, upToNext := range stages {
		for _, end := range ends {
			if stage == "at open" && end == nil {
				continue // a stream cannot end without an error before it is served
			}
			t.Run(fmt.Sprintf("%s/%v", stage, end), func(t *testing.T) {
				cfg := benchConfig{members: 2, user: "u"}
				if stage == "at open" {
					var once sync.Once
					cfg.onOpen = func(*member) (err error) { once.Do(func() { err = end }); return err }
				}
				inBubble(t, cfg, func(t *testing.T, b *bench) {
					_, l1 := b.watch("a", "", 5)
					_, l2 := b.watch("b", "", 7)
					begin := time.Now()
					c := upToNext(b, end)
					if cluster.IsTokenRefusal(end) {
						assert.LessOrEqual(t, time.Since(begin), 100*time.Millisecond, "logins are paced")
					} else {
						assert.Zero(t, time.Since(begin), "the first try is made at once")
					}
					from := map[string]int64{}
					for range 2 {
						r := c.grant()
						from[string(r.Key)] = r.StartRevision
						c.events(r.WatchId, put(string(r.Key), 20))
					}
					synctest.Wait()
					assert.EqualValues(t, 7, from["b"])
					assert.Equal(t, []int64{20}, l2.revisions())
					if stage == "mid-stream" {
						assert.EqualValues(t, 10, from["a"])
						assert.Equal(t, []int64{9, 20}, l1.revisions())
					} else {
						assert.EqualValues(t, 5, from["a"])
					}
					if cluster.IsTokenRefusal(end) {
						assert.Equal(t, "token2", c.token)
					} else {
						assert.Equal(t, "token1", c.token)
					}
				})
			})
		}
	}
}

func TestATokenRefusedAtACreationIsReplacedForAllOfTheStream(t *testing.T) { // hazards C5, W3
	for _, reason := range []error{rpctypes.ErrGRPCInvalidAuthToken, rpctypes.ErrGRPCAuthOldRevision, rpctypes.ErrGRPCUserEmpty} {
		t.Run(reason.Error(), func(t *testing.T) {
			inBubble(t, benchConfig{user: "u"}, func(t *testing.T, b *bench) {
				_, l1 := b.watch("a", "", 5)
				c := b.accept()
				id := c.grant().WatchId
				c.events(id, put("a", 6))
				synctest.Wait()
				_, l2 := b.watch("b", "", 5)
				c.create()
				c.refuse(reason.Error())
				next := b.accept()
				assert.Equal(t, "token2", next.token)
				starts := map[string]int64{}
				for range 2 {
					r := next.grant()
					starts[string(r.Key)] = r.StartRevision
					next.events(r.WatchId, put(string(r.Key), 9))
				}
				assert.Equal(t, map[string]int64{"a": 7, "b": 5}, starts)
				synctest.Wait()
				assert.Equal(t, []int64{6, 9}, l1.revisions())
				assert.Equal(t, []int64{9}, l2.revisions())
			})
		})
	}
}

func TestCredentialsThatAreDemandedAndNotThereEndTheWatch(t *testing.T) { // hazard C6
	inBubble(t, benchConfig{}, func(t *testing.T, b *bench) {
		_, l := b.watch("a", "", 5)
		for range 3 {
			c := b.accept()
			c.create()
			c.refuse(rpctypes.ErrGRPCUserEmpty.Error())
		}
		synctest.Wait()
		assert.True(t, cluster.IsTokenRefusal(l.end().Err))
	})
}

func TestPermissionDeniedIsBelievedUnderAFreshTokenAndEndsOnlyItsWatch(t *testing.T) { // hazard W3
	inBubble(t, benchConfig{user: "u", members: 2}, func(t *testing.T, b *bench) {
		_, la := b.watch("a", "", 5)
		c := b.accept()
		ida := c.grant().WatchId
		stop := make(chan struct{})
		defer close(stop)
		go func() { // keep the stream alive while the token grows old
			for {
				select {
				case <-c.reqs:
					c.refuse(rpctypes.ErrGRPCPermissionDenied.Error())
				case <-stop:
					return
				}
			}
		}()
		time.Sleep(time.Minute)
		w, lb := b.watch("b", "", 5)
		next := b.accept()
		assert.Equal(t, "token2", next.token, "the old token is not believed")
		next.create()
		next.refuse(rpctypes.ErrGRPCPermissionDenied.Error())
		synctest.Wait()
		assert.True(t, cluster.IsPermissionDenied(lb.end().Err))
		assert.ErrorContains(t, lb.end().Err, `watch "b"`)
		c.events(ida, put("a", 6))
		synctest.Wait()
		assert.Equal(t, []int64{6}, la.revisions())
		w.Cancel()
		assert.Equal(t, 1, b.hub.Stats().Watches)
	})
}

func TestPermissionDeniedOnceIsQueriedElsewhere(t *testing.T) {
	inBubble(t, benchConfig{user: "u", members: 2}, func(t *testing.T, b *bench) {
		_, l := b.watch("a", "", 5)
		c := b.accept()
		c.create()
		c.refuse(rpctypes.ErrGRPCPermissionDenied.Error())
		next := b.accept()
		assert.NotEqual(t, c.member.index, next.member.index)
		next.events(next.grant().WatchId, put("a", 5))
		synctest.Wait()
		assert.Equal(t, []int64{5}, l.revisions())
	})
}

func TestACreationAnsweredForACancelledWatchIsCancelled(t *testing.T) {
	inBubble(t, benchConfig{}, func(t *testing.T, b *bench) {
		w, l := b.watch("a", "", 1)
		c := b.accept()
		r := c.create()
		w.Cancel()
		c.nothing(time.Second)
		c.created(r.WatchId)
		assert.Equal(t, r.WatchId, c.canceled())
		c.events(r.WatchId, put("a", 2))
		synctest.Wait()
		assert.Empty(t, l.all())
	})
}

func TestAWatchCancelledBeforeItsCreationCostsNoMessage(t *testing.T) {
	inBubble(t, benchConfig{}, func(t *testing.T, b *bench) {
		_, _ = b.watch(fullKey, "", 1)
		c := b.accept()
		r := c.create()
		w, _ := b.watch("b", "", 1)
		last, _ := b.watch("c", "", 1)
		synctest.Wait()
		w.Cancel()
		w.Cancel()
		c.created(r.WatchId)
		assert.Equal(t, "c", string(c.grant().Key))
		last.Cancel()
		c.canceled()
		c.nothing(time.Second)
	})
}

func TestNoCallStartsAfterCancelReturned(t *testing.T) {
	inBubble(t, benchConfig{}, func(t *testing.T, b *bench) {
		w, l := b.watch("a", "", 1)
		c := b.accept()
		id := c.grant().WatchId
		c.events(id, put("a", 1))
		synctest.Wait()
		w.Cancel()
		c.events(id, put("a", 2))
		c.end <- nil
		synctest.Wait()
		b.hub.Close()
		assert.Equal(t, []int64{1}, l.revisions())
	})
}

func TestACancelThatTheStreamHasNotNoticedCounts(t *testing.T) {
	for i := range 40 { // the stream notices it before or after what follows, by chance
		inBubble(t, benchConfig{}, func(t *testing.T, b *bench) {
			entered, leave := make(chan struct{}), make(chan struct{})
			b.hub.Watch("busy", "", 1, func(u Update) {
				if u.Err == nil {
					close(entered)
					<-leave
				}
			})
			w1, l1 := b.watch("live", "", 1)
			c := b.accept()
			busy, id1 := c.grant().WatchId, c.grant().WatchId
			b.watch(fullKey, "", 1)
			r := c.create()
			w2, _ := b.watch("queued", "", 1)
			synctest.Wait()
			c.events(busy, put("busy", 1))
			<-entered
			w1.Cancel()
			w2.Cancel()
			if i%2 == 0 {
				c.events(id1, put("live", 2))
				c.created(r.WatchId)
			} else {
				c.created(r.WatchId)
				c.events(id1, put("live", 2))
			}
			synctest.Wait()
			close(leave)
			assert.Equal(t, id1, c.canceled())
			c.nothing(time.Second)
			assert.Empty(t, l1.all())
		})
	}
}

func TestARepeatedAcknowledgementIsNotTakenForAnother(t *testing.T) {
	inBubble(t, benchConfig{}, func(t *testing.T, b *bench) {
		b.watch("a", "", 1)
		c := b.accept()
		id := c.grant().WatchId
		w, _ := b.watch("b", "", 1)
		r := c.create()
		c.created(id)
		synctest.Wait()
		assert.False(t, w.Armed())
		c.created(r.WatchId)
		synctest.Wait()
		assert.True(t, w.Armed())
	})
}

func TestCancelIsAllowedWithinTheFunctionAndUnderItsLocks(t *testing.T) {
	inBubble(t, benchConfig{}, func(t *testing.T, b *bench) {
		var mu sync.Mutex
		var w1, w2, w3 *Watch
		calls, made := 0, make(chan struct{})
		w1 = b.hub.Watch("a", "", 1, func(Update) {
			<-made
			calls++
			w1.Cancel()
			w3 = b.hub.Watch("c", "", 1, func(Update) {})
		})
		entered := make(chan struct{})
		w2 = b.hub.Watch("b", "", 1, func(Update) {
			close(entered)
			mu.Lock()
			defer mu.Unlock()
		})
		close(made)
		c := b.accept()
		id1, id2 := c.grant().WatchId, c.grant().WatchId
		c.events(id1, put("a", 1))
		c.events(id1, put("a", 2))
		assert.Equal(t, "c", string(c.grant().Key))
		assert.Equal(t, id1, c.canceled())
		mu.Lock()
		c.events(id2, put("b", 1))
		<-entered
		w2.Cancel()
		w3.Cancel()
		b.hub.Stats()
		mu.Unlock()
		synctest.Wait()
		assert.Equal(t, 1, calls)
		assert.Zero(t, b.hub.Stats().Watches)
	})
}

func TestAnIdleStreamIsHalfClosedAfterTwoSecondsAndAnotherOpenedWhenNeeded(t *testing.T) { // hazard O6
	inBubble(t, benchConfig{}, func(t *testing.T, b *bench) {
		w, _ := b.watch("a", "", 1)
		c := b.accept()
		c.grant()
		synctest.Wait()
		w.Cancel()
		begin := time.Now()
		<-c.half
		assert.Equal(t, sweepAfter+idleFor, time.Since(begin))
		c.end <- nil
		<-c.gone
		assert.Equal(t, sweepAfter+idleFor, time.Since(begin), "it waits for the server's end")
		assert.Equal(t, Stats{}, b.hub.Stats())
		b.watch("b", "", 1)
		b.accept().grant()
	})
}

func TestAServerThatDoesNotEndAHalfClosedStreamIsNotWaitedForLong(t *testing.T) {
	inBubble(t, benchConfig{}, func(t *testing.T, b *bench) {
		w, _ := b.watch("a", "", 1)
		c := b.accept()
		c.grant()
		synctest.Wait()
		w.Cancel()
		begin := time.Now()
		<-c.gone
		assert.Equal(t, sweepAfter+idleFor+drainFor, time.Since(begin))
	})
}

func TestReopeningIsPacedAndTakesTurns(t *testing.T) { // hazard W11
	type opening struct {
		at     time.Time
		member int
	}
	var mu sync.Mutex
	var opened []opening
	cfg := benchConfig{members: 2, onOpen: func(m *member) error {
		mu.Lock()
		defer mu.Unlock()
		opened = append(opened, opening{time.Now(), m.index})
		for range rand.IntN(2) {
			m.bench.cluster.Pick() // others are at work, too
		}
		return status.Error(codes.Unavailable, "no")
	}}
	inBubble(t, cfg, func(t *testing.T, b *bench) {
		b.watch("a", "", 1)
		time.Sleep(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		require.Greater(t, len(opened), 60)
		assert.Less(t, len(opened), 130)
		assert.Zero(t, opened[1].at.Sub(opened[0].at), "the first at once")
		for i := 1; i < len(opened); i++ {
			assert.NotEqual(t, opened[i-1].member, opened[i].member)
			if d := opened[i].at.Sub(opened[i-1].at); i > 1 {
				assert.GreaterOrEqual(t, d, backoff.Request().First/2)
				assert.Less(t, d, time.Second)
			}
		}
	})
}

func TestAMemberWhoseStreamIsLostIsGradedDownAndUpAgain(t *testing.T) {
	inBubble(t, benchConfig{members: 2}, func(t *testing.T, b *bench) {
		picked := func() map[string]bool {
			names := map[string]bool{}
			for range 10 {
				names[b.cluster.Pick().Endpoint()] = true
			}
			return names
		}
		name := func(c *call) string { return fmt.Sprintf("member%d:2379", c.member.index) }
		b.watch("a", "", 1)
		c1 := b.accept()
		c1.grant()
		synctest.Wait()
		c1.end <- rpctypes.ErrGRPCNoLeader
		c2 := b.accept()
		assert.Equal(t, map[string]bool{name(c2): true}, picked())
		c2.grant()
		synctest.Wait()
		c2.end <- rpctypes.ErrGRPCNoLeader
		c3 := b.accept()
		assert.Equal(t, name(c1), name(c3))
		c3.grant()
		synctest.Wait()
		assert.Equal(t, map[string]bool{name(c3): true}, picked(), "it works again")
	})
}

func TestAStreamThatEndsRightAfterItsFirstAnswerIsPacedToo(t *testing.T) { // hazard W11
	inBubble(t, benchConfig{members: 2}, func(t *testing.T, b *bench) {
		b.watch("a", "", 1)
		begin := time.Now()
		for range 20 {
			c := b.accept()
			c.grant()
			synctest.Wait()
			c.end <- status.Error(codes.Unavailable, "no")
			<-c.gone
		}
		assert.Greater(t, time.Since(begin), 5*time.Second)
	})
}

func TestAnotherClustersAnswerIsNotTaken(t *testing.T) {
	inBubble(t, benchConfig{members: 2}, func(t *testing.T, b *bench) {
		_, l := b.watch("a", "", 1)
		c := b.accept()
		r := c.grant()
		foreign := &pb.ResponseHeader{ClusterId: 0xbad, MemberId: 1, Revision: 9, RaftTerm: 2}
		c.send(&pb.WatchResponse{Header: foreign, WatchId: r.WatchId, Events: []*mvccpb.Event{put("a", 3)}})
		next := b.accept()
		assert.NotEqual(t, c.member.index, next.member.index)
		assert.EqualValues(t, 1, next.grant().StartRevision)
		assert.Empty(t, l.all())
	})
}

func TestTheClustersEndEndsAllWatchesWithItsError(t *testing.T) {
	inBubble(t, benchConfig{}, func(t *testing.T, b *bench) {
		_, l1 := b.watch("a", "", 1)
		_, l2 := b.watch("b", "", 1)
		c := b.accept()
		r := c.grant()
		c.member.moved.Store(true)
		foreign := &pb.ResponseHeader{ClusterId: 0xbad, MemberId: 1, Revision: 9, RaftTerm: 2}
		c.send(&pb.WatchResponse{Header: foreign, WatchId: r.WatchId})
		synctest.Wait()
		assert.ErrorIs(t, l1.end().Err, cluster.ErrChanged)
		assert.ErrorIs(t, l2.end().Err, cluster.ErrChanged)
		_, l3 := b.watch("c", "", 1)
		synctest.Wait()
		assert.ErrorIs(t, l3.end().Err, cluster.ErrChanged)
		assert.Zero(t, b.hub.Stats().Watches)
		assert.Zero(t, b.hub.Stats().Streams)
	})
}

func TestCloseEndsWatchesAtEveryStage(t *testing.T) {
	inBubble(t, benchConfig{}, func(t *testing.T, b *bench) {
		logs := make([]*log, 4)
		_, logs[0] = b.watch("a", "", 1)
		c := b.accept()
		c.grant()
		_, logs[1] = b.watch("b", "", 1)
		c.create()
		c.refuse("later")
		_, logs[2] = b.watch("c", "", 1)
		c.create()
		_, logs[3] = b.watch("d", "", 1)
		b.hub.Close()
		for _, l := range logs {
			assert.ErrorIs(t, l.end().Err, cluster.ErrClosed)
		}
		b.hub.Close()
		w, late := b.watch("e", "", 1)
		assert.ErrorIs(t, late.end().Err, cluster.ErrClosed)
		w.Cancel()
		assert.Equal(t, Stats{}, b.hub.Stats())
	})
}

func TestCloseWhileNobodyAnswersReturnsAtOnce(t *testing.T) {
	cfg := benchConfig{onOpen: func(*member) error { return status.Error(codes.Unavailable, "no") }}
	inBubble(t, cfg, func(t *testing.T, b *bench) {
		_, l := b.watch("a", "", 1)
		time.Sleep(10 * time.Second)
		begin := time.Now()
		b.hub.Close()
		assert.Zero(t, time.Since(begin))
		assert.ErrorIs(t, l.end().Err, cluster.ErrClosed)
	})
}

func TestARangeThatCannotBeEndsItsWatch(t *testing.T) {
	inBubble(t, benchConfig{}, func(t *testing.T, b *bench) {
		_, l1 := b.watch("b", "a", 1)
		_, l2 := b.watch(string(make([]byte, maxSpan+1)), "", 1)
		w, _ := b.watch("c", "", 1)
		assert.Equal(t, "c", string(b.accept().grant().Key))
		assert.ErrorIs(t, l1.end().Err, errEmptySpan)
		assert.ErrorIs(t, l2.end().Err, errLongSpan)
		w.Cancel()
		assert.Panics(t, func() { b.hub.Watch("a", "", 1, nil) })
	})
}

func TestAStreamCarries512Watches(t *testing.T) {
	inBubble(t, benchConfig{}, func(t *testing.T, b *bench) {
		var ws []*Watch
		for range perStream {
			w, _ := b.watch(fmt.Sprint("a", len(ws)), "", 1)
			ws = append(ws, w)
		}
		c := b.accept()
		for range perStream {
			c.grant()
		}
		b.noStream(time.Second)
		b.watch("a", "", 1)
		b.accept().grant()
		assert.Equal(t, Stats{Watches: perStream + 1, Streams: 2}, b.hub.Stats())
		for _, w := range ws {
			w.Cancel()
		}
		for range ws {
			c.canceled()
		}
		<-c.gone
		assert.Equal(t, Stats{Watches: 1, Streams: 1}, b.hub.Stats())
	})
}

func TestEventsBeforeTheAcknowledgementAreNotLost(t *testing.T) {
	inBubble(t, benchConfig{}, func(t *testing.T, b *bench) {
		_, l := b.watch("a", "", 1)
		c := b.accept()
		r := c.create()
		c.events(r.WatchId, put("a", 3))
		c.created(r.WatchId)
		c.created(r.WatchId)
		c.events(r.WatchId, put("a", 4))
		synctest.Wait()
		assert.Equal(t, []int64{3, 4}, l.revisions())
	})
}

func TestWatchesWaitingWhileThereIsNoStreamCanBeCancelled(t *testing.T) {
	down := errors.New("down")
	var mu sync.Mutex
	cfg := benchConfig{onOpen: func(*member) error { mu.Lock(); defer mu.Unlock(); return down }}
	inBubble(t, cfg, func(t *testing.T, b *bench) {
		keep, l := b.watch("keep", "", 1)
		for range 5000 { // more than one stream carries, one after the other
			w, _ := b.watch("a", "", 1)
			w.Cancel()
		}
		time.Sleep(10 * time.Second)
		assert.Equal(t, 1, b.hub.Stats().Watches)
		assert.Equal(t, 1, b.hub.Stats().Streams)
		mu.Lock()
		down = nil
		mu.Unlock()
		c := b.accept()
		assert.Equal(t, "keep", string(c.grant().Key))
		c.nothing(time.Second)
		assert.Empty(t, l.all())
		keep.Cancel()
	})
}

func TestCancelledWatchesDoNotHoldAStreamThatCannotOpen(t *testing.T) {
	cfg := benchConfig{onOpen: func(*member) error { return status.Error(codes.Unavailable, "no") }}
	inBubble(t, cfg, func(t *testing.T, b *bench) {
		w, _ := b.watch("a", "", 1)
		time.Sleep(5 * time.Second)
		w.Cancel()
		synctest.Wait()
		assert.Equal(t, 0, b.hub.Stats().Streams)
	})
}
