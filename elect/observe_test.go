package elect_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/elect"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/leaderview"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
)

func (w *fixture) observe(ctx context.Context, c *pawl.Client, name string, pause time.Duration) *leaderview.Viewer {
	ctx, cancel := context.WithCancel(ctx)
	v := leaderview.Begin(ctx, c, name, pause)
	w.t.Cleanup(func() { cancel(); <-v.Ended })
	return v
}

// A semaphore of the same name has nothing to do with an election; its holders lead nothing.
func TestASemaphoreHasNoLeader(t *testing.T) {
	inBubble(t, func(w *fixture) {
		c := w.client()
		v := w.observe(w.ctx, c, "gpus", 0)
		synctest.Wait()
		assert.Equal(t, "-", v.Said())
		p, err := lock.NewSemaphore(w.session(), "gpus", 2, lock.Options{}).Acquire(w.ctx)
		require.NoError(t, err)
		synctest.Wait()
		assert.Equal(t, "-", v.Said(), "the slot's holder was shown as a leader")
		_, err = elect.LeaderOf(w.ctx, c, "gpus", elect.Options{})
		require.ErrorIs(t, err, elect.ErrNoLeader)
		require.NoError(t, p.Release(w.ctx))
	})
}

// Hazard E7: Observe yields that nobody leads as an event, also at first, and never a candidate
// that did not lead.
func TestObserveYieldsEachLeaderAndNoLeader(t *testing.T) {
	inBubble(t, func(w *fixture) {
		c := w.client()
		ctx, cancel := context.WithCancel(w.ctx)
		v := w.observe(ctx, c, "e", 0)
		other := w.observe(ctx, c, "e2", 0)
		synctest.Wait()
		require.Equal(t, "-", v.Said())

		a := w.campaign(w.session(), "e", "a")
		synctest.Wait()
		waiting := make(chan *elect.Term, 1)
		gone, give := context.WithCancel(w.ctx)
		for _, who := range []struct {
			ctx  context.Context
			name string
		}{{w.ctx, "b"}, {gone, "never"}} {
			s := w.session()
			go func() {
				if tm, err := elect.New(s, "e", elect.Options{}).Campaign(who.ctx, []byte(who.name)); err == nil {
					waiting <- tm
				}
			}()
			synctest.Wait()
		}
		for range 2 {
			require.NoError(t, a.Proclaim(w.ctx, []byte("A")))
			synctest.Wait()
		}
		give()
		synctest.Wait()
		require.NoError(t, a.Resign(w.ctx))
		b := <-waiting
		synctest.Wait()
		require.NoError(t, b.Resign(w.ctx))
		synctest.Wait()

		assert.Equal(t, "- a A A b -", v.Said(), "each put is an event")
		assert.Equal(t, "-", other.Said(), "a name that begins alike is another")
		leaderview.RequireTrue(t, v.Seen(), w.History(), "e/")
		cancel()
		<-v.Ended
		<-other.Ended
		assert.ErrorIs(t, v.Err, context.Canceled)
	})
}

// Hazard E7: all that happens within one batch of the watch is applied before anything is yielded.
func TestObserveNeverYieldsACandidateOfABatchThatDidNotLead(t *testing.T) {
	inBubble(t, func(w *fixture) {
		v := w.observe(context.Background(), w.client(), "e", 0)
		synctest.Wait()
		for _, m := range w.Members() {
			m.Mute()
		}
		w.Put("e/a", "a", 0)
		w.Put("e/b", "b", 0)
		w.Put("e/c", "c", 0)
		w.Delete("e/b")
		w.Delete("e/a")
		w.Put("e/b", "again", 0)
		w.Heal()
		synctest.Wait()
		time.Sleep(10 * time.Second)
		leaderview.RequireTrue(t, v.Seen(), w.History(), "e/")
		assert.NotContains(t, v.Said(), "b")
		assert.NotContains(t, v.Said(), "again")
		seen := v.Seen()
		assert.Equal(t, "c", string(seen[len(seen)-1].Value))
		w.Delete("e/c")
		w.Delete("e/b")
		synctest.Wait()
		seen = v.Seen()
		assert.Zero(t, seen[len(seen)-1].Token)
	})
}

func TestASlowConsumerSeesTheLatestState(t *testing.T) {
	inBubble(t, func(w *fixture) {
		v := w.observe(context.Background(), w.client(), "e", time.Minute)
		synctest.Wait()
		for i := range 1000 {
			w.Put("e/a", fmt.Sprint(i), 0)
		}
		time.Sleep(90 * time.Second)
		assert.Equal(t, "- 999", v.Said(), "and the consumer is still at it")
		w.Delete("e/a")
		w.Put("e/b", "b", 0)
		time.Sleep(2 * time.Minute)
		assert.Equal(t, "- 999 b", v.Said())
	})
}

// Hazard E6: Observe goes on, whatever happens to members, connections, watches and revisions.
func TestObserveSurvivesEveryFault(t *testing.T) {
	compaction := func(w *fixture) { // then the candidates are read again
		w.Cut()
		w.Put("noise", "", 0)
		w.Put("e/gone", "gone", 0)
		w.Delete("e/gone")
		w.Compact(w.Put("noise", "", 0))
		w.Heal()
	}
	faults := map[string]func(w *fixture){
		"compaction":    compaction,
		"reset":         func(w *fixture) { w.Member(0).Reset(); w.Member(1).Reset(); w.Member(2).Reset() },
		"one cut":       func(w *fixture) { w.Member(0).Cut() },
		"all cut":       func(w *fixture) { w.Cut(); time.Sleep(20 * time.Second); w.Heal() },
		"black hole":    func(w *fixture) { w.BlackHole(); time.Sleep(20 * time.Second); w.Heal() },
		"one stopped":   func(w *fixture) { w.Member(1).Stop(); time.Sleep(10 * time.Second); w.Member(1).Heal() },
		"isolated":      func(w *fixture) { w.Member(2).Isolate(); time.Sleep(10 * time.Second); w.Member(2).Heal() },
		"leader change": func(w *fixture) { w.ChangeLeader(1) },
		"no watches": func(w *fixture) {
			f := w.Inject(etcdfake.Rule{Method: "Watch", Opening: true, Err: status.Error(codes.Unavailable, "no")})
			w.Member(0).Reset()
			w.Member(1).Reset()
			w.Member(2).Reset()
			time.Sleep(10 * time.Second)
			f.Lift()
		},
		"reads lost": func(w *fixture) {
			for _, op := range []string{"read candidates", "read leader"} {
				w.Inject(etcdfake.Rule{Op: op, Times: 2, Err: unavailable})
				w.Inject(etcdfake.Rule{Op: op, Times: 2, Lose: true, Err: unavailable})
			}
			compaction(w)
		},
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *fixture) {
				ctx, cancel := context.WithCancel(w.ctx)
				v := w.observe(ctx, w.client(), "e", 0)
				synctest.Wait()
				w.Put("e/a", "a", 0)
				w.Put("e/b", "b", 0)
				synctest.Wait()
				for i := range 3 {
					fault(w)
					w.Put("e/a", fmt.Sprint(i), 0)
					time.Sleep(30 * time.Second)
					seen := v.Seen()
					require.Equal(t, fmt.Sprint(i), string(seen[len(seen)-1].Value))
				}
				fault(w)
				w.Delete("e/a")
				time.Sleep(30 * time.Second)
				assert.True(t, strings.HasSuffix(v.Said(), " 2 b"), v.Said())
				w.Delete("e/b")
				time.Sleep(30 * time.Second)
				assert.True(t, strings.HasSuffix(v.Said(), " 2 b -"), v.Said())
				leaderview.RequireTrue(t, v.Seen(), w.History(), "e/")
				cancel()
				<-v.Ended
				assert.ErrorIs(t, v.Err, context.Canceled)
			})
		})
	}
}

func TestObserveEndsWithItsClientAndWithItsCluster(t *testing.T) {
	for name, want := range map[string]error{"closed": lease.ErrClosed, "changed": pawl.ErrClusterChanged} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *fixture) {
				c := w.client()
				v := w.observe(context.Background(), c, "e", 0)
				synctest.Wait()
				if want == pawl.ErrClusterChanged {
					for _, m := range w.Members() {
						m.SetClusterID(42)
						m.Reset()
					}
				} else {
					require.NoError(t, c.Close())
				}
				<-v.Ended
				require.ErrorIs(t, v.Err, want)
				assert.Len(t, v.Seen(), 1)
				assert.ErrorIs(t, second(elect.LeaderOf(w.ctx, c, "e", elect.Options{})), want)
			})
		})
	}
}

func TestObserveEndsWithADeniedPermission(t *testing.T) {
	inBubble(t, func(w *fixture) {
		c := w.client()
		w.Inject(etcdfake.Rule{Method: "Txn", Err: status.Error(codes.PermissionDenied, "etcdserver: permission denied"), Lose: true})
		errs := observed(w.ctx, c, "e")
		require.Len(t, errs, 1)
		assert.ErrorContains(t, errs[0], "permission denied")
	})
}

// Observe also ends if only the watch is denied, which would otherwise be requested again and
// again.
func TestObserveEndsWithAWatchThatIsDenied(t *testing.T) {
	inBubble(t, func(w *fixture) {
		for _, m := range w.Members() {
			m.EditWatches(func(r *pb.WatchResponse) []*pb.WatchResponse {
				if r.Created {
					r.WatchId, r.Canceled, r.CancelReason = -1, true, "etcdserver: permission denied"
				}
				return []*pb.WatchResponse{r}
			})
		}
		errs := observed(w.ctx, w.client(), "e")
		require.Len(t, errs, 2)
		assert.NoError(t, errs[0], "nobody leads")
		assert.ErrorContains(t, errs[1], "permission denied")
	})
}

// Observe reads again if a read shows that the leader is gone and the watch does not deliver it.
func TestObserveReadsAgainWhenTheWatchKeepsSilent(t *testing.T) {
	inBubble(t, func(w *fixture) {
		for _, m := range w.Members() {
			m.EditWatches(etcdfake.SwallowDeletes("e/"))
		}
		w.Put("e/a", "a", 0)
		w.Inject(etcdfake.Rule{Op: "read leader", Match: func(etcdfake.Request) bool {
			w.Delete("e/a") // the candidates have been read, but not the first one's value
			return false
		}})
		before, begun := w.Counts(), time.Now()
		for l, err := range elect.Observe(w.ctx, w.client(), "e", elect.Options{}) {
			require.NoError(t, err)
			assert.Zero(t, l.Token)
			break
		}
		assert.LessOrEqual(t, time.Since(begun), 2*time.Second)
		assert.Equal(t, 3, w.Counts().Since(before).Received["Txn"])
	})
}

// A value is read once. Candidates who come and go behind the leader cost no request.
func TestCandidatesCostAnObserverNoRequest(t *testing.T) {
	inBubble(t, func(w *fixture) {
		w.Put("e/leader", "v", 0)
		v := w.observe(context.Background(), w.client(), "e", 0)
		time.Sleep(time.Second)
		before := w.Counts()
		for i := range 100 {
			key := fmt.Sprint("e/", i)
			w.Put(key, "", 0)
			synctest.Wait()
			w.Delete(key)
			synctest.Wait()
		}
		assert.Zero(t, w.Counts().Since(before).Received["Txn"])
		assert.Equal(t, "v", v.Said())
	})
}

func TestBreakingOutOfObserveLeavesNothing(t *testing.T) {
	inBubble(t, func(w *fixture) {
		c := w.client()
		w.Put("e/a", "a", 0)
		time.Sleep(time.Minute)
		before, opened := runtime.NumGoroutine(), w.Counts()
		for range 50 {
			for l, err := range elect.Observe(w.ctx, c, "e", elect.Options{}) {
				require.NoError(t, err)
				require.Equal(t, "a", string(l.Value))
				break
			}
		}
		time.Sleep(time.Minute)
		assert.Less(t, runtime.NumGoroutine(), before+50, "one for each Observe")
		assert.LessOrEqual(t, w.Counts().Since(opened).Opened["Watch"], 1)
		assert.Zero(t, w.Counts().Since(opened).Received["LeaseGrant"])
	})
}

func TestObserveBeginsAgainEachTime(t *testing.T) {
	inBubble(t, func(w *fixture) {
		seq := elect.Observe(w.ctx, w.client(), "e", elect.Options{})
		for _, want := range []string{"", "a"} {
			for l, err := range seq {
				require.NoError(t, err)
				assert.Equal(t, want, string(l.Value))
				break
			}
			w.Put("e/a", "a", 0)
		}
	})
}

// More candidates than fit into one answer are read at one revision while others come and go.
func TestALongQueueIsReadAtOneRevision(t *testing.T) {
	inBubble(t, func(w *fixture) {
		for i := range 2500 {
			w.Put(fmt.Sprintf("e/%04d", (i*7)%2500), fmt.Sprint(i), 0)
		}
		var mu sync.Mutex
		var at []int64 // the revisions that were requested
		w.Inject(etcdfake.Rule{Op: "read candidates", Match: func(r etcdfake.Request) bool {
			mu.Lock()
			defer mu.Unlock()
			for _, op := range r.Message.(*pb.TxnRequest).Success {
				at = append(at, op.GetRequestRange().Revision)
			}
			return false
		}})
		v := w.observe(context.Background(), w.client(), "e", 0)
		w.Delete("e/0000")
		synctest.Wait()
		require.Len(t, at, 3)
		assert.Zero(t, at[0])
		assert.NotZero(t, at[1])
		assert.Equal(t, at[1], at[2])
		for i := 1; i < 20; i++ {
			w.Delete(fmt.Sprintf("e/%04d", i*7))
			synctest.Wait()
		}
		seen := v.Seen()
		assert.Equal(t, "20", string(seen[len(seen)-1].Value))
		leaderview.RequireTrue(t, seen, w.History(), "e/")
	})
}

func TestLeaderOfSaysWhoLeads(t *testing.T) {
	inBubble(t, func(w *fixture) {
		c := w.client()
		_, err := elect.LeaderOf(w.ctx, c, "e", elect.Options{})
		require.ErrorIs(t, err, elect.ErrNoLeader)
		w.Put("e2/x", "no", 0)
		w.Put("e/z", "first", 0)
		w.Put("e/a", "second", 0)
		rev := w.Put("noise", "", 0)
		before := w.Counts()
		l, err := elect.LeaderOf(w.ctx, c, "e", elect.Options{})
		require.NoError(t, err)
		assert.Equal(t, elect.Leader{Name: "e", Key: "e/z", Token: 3, CreateRevision: 3, ModRevision: 3, Value: []byte("first"), Revision: rev}, l)
		n := w.Counts().Since(before).Received
		assert.Equal(t, 2, n["Txn"], "two reads")
		assert.Zero(t, n["LeaseGrant"])
		assert.Equal(t, rev, w.Revision(), "and nothing written")
	})
}

func TestLeaderOfIsNotFooledByAKeyThatComesAgain(t *testing.T) {
	inBubble(t, func(w *fixture) {
		c := w.client()
		w.Put("e/a", "first", 0)
		var again int64
		w.Inject(etcdfake.Rule{Op: "read leader", Match: func(etcdfake.Request) bool {
			if again == 0 { // between the two reads
				w.Delete("e/a")
				again = w.Put("e/a", "again", 0)
			}
			return false
		}})
		l, err := elect.LeaderOf(w.ctx, c, "e", elect.Options{})
		require.NoError(t, err)
		assert.EqualValues(t, again, l.Token)
		assert.Equal(t, "again", string(l.Value))
	})
}

func TestObservingNeedsNoMoreThanPermissionToRead(t *testing.T) {
	inBubble(t, func(w *fixture) {
		w.Put("e/a", "a", 0)
		w.EnableAuth("root's")
		w.SetUser("eyes", "only", etcdfake.Access{Prefix: "e/", Read: true})
		c := w.clientWith(pawl.Config{Username: "eyes", Password: "only"})
		l, err := elect.LeaderOf(w.ctx, c, "e", elect.Options{})
		require.NoError(t, err)
		assert.Equal(t, "a", string(l.Value))
		v := w.observe(context.Background(), c, "e", 0)
		synctest.Wait()
		w.Delete("e/a")
		time.Sleep(time.Second)
		assert.Equal(t, "a -", v.Said())
		_, err = elect.LeaderOf(w.ctx, c, "other", elect.Options{})
		assert.ErrorContains(t, err, "permission denied")
	})
}

// Hazard E13: one name is never another's prefix.
func TestNamesDoNotRunTogether(t *testing.T) {
	inBubble(t, func(w *fixture) {
		c := w.client()
		w.campaign(w.session(), "team2", "team2's")
		w.campaign(w.session(), "team/x", "team/x's")
		_, err := elect.LeaderOf(w.ctx, c, "team", elect.Options{})
		assert.ErrorIs(t, err, elect.ErrNoLeader)
		w.campaign(w.session(), "team", "team's")
		for _, name := range []string{"team", "team2", "team/x"} {
			l, err := elect.LeaderOf(w.ctx, c, name, elect.Options{})
			require.NoError(t, err)
			assert.Equal(t, name+"'s", string(l.Value))
		}
		s := w.session()
		tm := w.campaign(s, "other2", "")
		next, err := c.NewSession(w.ctx, lease.Options{Resume: s.Detach()})
		require.NoError(t, err)
		_, err = elect.New(next, "other", elect.Options{}).Resume(w.ctx, tm.Key(), tm.Token())
		require.Error(t, err, "a key of another name")
		again, err := elect.New(next, "other2", elect.Options{}).Resume(w.ctx, tm.Key(), tm.Token())
		require.NoError(t, err)
		assert.NoError(t, again.Err())
	})
}

func TestNamespaceIsPutBeforeTheNames(t *testing.T) {
	inBubble(t, func(w *fixture) {
		c := w.clientWith(pawl.Config{Namespace: "app/"})
		tm := w.campaign(w.sessionOn(c), "e", "v")
		assert.True(t, strings.HasPrefix(tm.Key(), "app/e/"))
		l, err := elect.LeaderOf(w.ctx, c, "e", elect.Options{})
		require.NoError(t, err)
		assert.Equal(t, tm.Key(), l.Key)
		_, err = elect.LeaderOf(w.ctx, w.client(), "e", elect.Options{})
		assert.ErrorIs(t, err, elect.ErrNoLeader)
	})
}
