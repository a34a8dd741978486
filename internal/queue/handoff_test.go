package queue

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/pawl-locks/pawl/internal/etcdapi"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/queue/state"
	"github.com/pawl-locks/pawl/internal/session"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
	"github.com/pawl-locks/pawl/lease"
)

// takingHandoffs returns a lock's request.
func takingHandoffs(s *session.Session) Request {
	return Request{Value: s.LabelOf("", false, "", nil), Handoffs: true}
}

// queueUp starts a holder and n waiters behind it, each on a different session, as locks do.
func (w *fixture) queueUp(n int) (*Acquisition, []*acquireCall) {
	w.Helper()
	s := w.session()
	holder, err := Acquire(w.Context(), s, takingHandoffs(s), w.queue())
	require.NoError(w, err)
	var waiting []*acquireCall
	for range n {
		s := w.session()
		a := w.acquiring(w.Context(), s, takingHandoffs(s))
		require.False(w, isClosed(a.done))
		waiting = append(waiting, a)
	}
	time.Sleep(200 * time.Millisecond) // all watches are up to date
	return holder, waiting
}

// releaseAndCount releases c and returns how many requests it took until the next one, if there is
// one, held the queue.
func (w *fixture) releaseAndCount(c *Acquisition, next *acquireCall) int {
	w.Helper()
	before := w.f.Counts()
	require.NoError(w, c.Release(w.Context(), errGivenBack))
	if next != nil {
		next.won()
	}
	synctest.Wait()
	return w.f.Counts().Since(before).Received["Txn"]
}

// The first of a queue queries. Each waiter that it finds behind itself receives the queue from its
// predecessor, without a request.
func TestAWaiterThatIsHandedTheQueueHoldsWithoutARequest(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
		holder, waiting := w.queueUp(2 + 2*keys.MaxSuccessors)
		assert.Equal(w, 2, w.releaseAndCount(holder, waiting[0]), "a release and a query")
		requests := 0
		for i := range waiting {
			var next *acquireCall
			if i+1 < len(waiting) {
				next = waiting[i+1]
			}
			c := waiting[i].c
			n := w.releaseAndCount(c, next)
			requests += n
			if i > 0 && i < keys.MaxSuccessors {
				assert.Equal(w, 1, n, "handoff %d", i)
			}
			if next != nil {
				assert.Greater(w, next.c.Token(), c.Token())
			}
		}
		// There is a release for each, and a query when the known successors are used up. After a
		// query, a waiter that cannot know of its handoff may query too.
		assert.LessOrEqual(w, requests, len(waiting)+4)
		w.clear()
	})
}

func TestAHandoffKeepsTheKeysOwnValueAndItsLease(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(w *fixture) {
		holder, waiting := w.queueUp(3)
		w.release(holder)
		first := waiting[0].won()
		key := w.keyAt(1)
		before := w.f.Get(key)
		w.release(first)
		c := waiting[1].won()
		after := w.f.Get(key)
		require.Equal(w, key, c.Key())
		assert.Equal(w, before.Lease, after.Lease)
		assert.Equal(w, before.CreateRevision, after.CreateRevision)
		line, rest, _ := strings.Cut(string(after.Value), "\n")
		assert.Equal(w, string(before.Value), line)
		assert.Contains(w, rest, "granted ")
		w.release(c)
		w.release(waiting[2].won())
		w.clear()
	})
}

// The watch of a waiter's own key begins first. A handoff that arrives before the predecessor is
// followed finds the acquisition waiting for that predecessor.
func TestAHandoffThatComesBeforeThePredecessorIsFollowedCounts(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(w *fixture) {
		s := w.session()
		a := w.fresh(w.Context(), s, state.Options{Handoffs: true}, w.queues()...)
		_, err := a.begins()
		require.NoError(w, err)
		value, name := string(s.LabelOf("", false, "", nil)), a.queues[0].Prefix+"7f3a-1"
		predecessor := state.Key{Name: name, Create: w.f.Put(name, value, 0)}
		own := state.Key{Name: a.Key(), Create: w.f.Put(a.Key(), value, s.ID())}
		fx := a.takes(state.Enqueued{Own: own, Predecessor: predecessor, Whole: true, Revision: own.Create})
		a.watchOwn(0, fx.From)
		w.f.Put(a.Key(), fmt.Sprintf("%s\ngranted 7f3a-1 %d\n", value, predecessor.Create), s.ID())
		synctest.Wait()
		a.follow(predecessor, fx.From)
		require.Equal(w, state.Win, a.now().Next())
		a.apply(state.GaveUp{}, nil)
	})
}

// keyAt is the i-th key of the queue in the order of creation.
func (w *fixture) keyAt(i int) string {
	keys := w.keys()
	for _, k := range keys {
		older := 0
		for _, other := range keys {
			if w.f.Get(other).CreateRevision < w.f.Get(k).CreateRevision {
				older++
			}
		}
		if older == i {
			return k
		}
	}
	return ""
}

// R1, A4, A5: whatever happens to a release that hands off, it counts as a release, and the next
// one holds, once.
// rule: A2
func TestEveryFailureOfAHandoffEndsInOneHolder(t *testing.T) {
	eachFault(t, isHandoff, func(w *fixture, fa fault) {
		holder, waiting := w.queueUp(3)
		w.release(holder)
		first := waiting[0].won()
		hit := w.f.Inject(isHandoff.rule(fa.rule))
		err := first.Release(w.Context(), errGivenBack)
		assert.NotZero(w, hit.Hits())
		if err != nil {
			assert.NotErrorIs(w, err, ErrLost)
		}
		second := waiting[1].won()
		w.f.LiftAll()
		time.Sleep(4 * time.Second) // what is late arrives
		w.held(second)
		assert.NoError(w, first.Release(w.Context(), errGivenBack), "it was held until the release")
		w.release(second)
		w.release(waiting[2].won())
		w.clear()
	})
}

// The order that a query found is final, but the waiters may be gone by the time of the handoff.
func TestAHandoffToOneThatIsGoneIsAPlainRelease(t *testing.T) {
	for name, leave := range map[string]func(w *fixture, key string){
		"deleted":      func(w *fixture, key string) { w.f.Delete(key) },
		"lease ended":  func(w *fixture, key string) { w.f.Revoke(w.f.Get(key).Lease) },
		"several gone": func(w *fixture, key string) { w.f.Delete(key); w.f.Delete(w.keyAt(1)) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
				holder, waiting := w.queueUp(4)
				w.release(holder)
				first := waiting[0].won()
				leave(w, w.keyAt(1))
				synctest.Wait()
				assert.Error(w, waiting[1].failed())
				w.release(first)
				next := waiting[2]
				if name == "several gone" {
					assert.Error(w, next.failed())
					next = waiting[3]
				}
				c := next.won()
				w.release(c)
				if next != waiting[3] {
					w.release(waiting[3].won())
				}
				w.clear()
			})
		})
	}
}

// A handoff compares the create revision that was read, not only the name.
func TestAKeyMadeAgainByAnotherIsNotHandedOffTo(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
		holder, waiting := w.queueUp(2)
		w.release(holder)
		first := waiting[0].won()
		key := w.keyAt(1)
		w.f.Delete(key)
		w.f.Put(key, "x", 0)
		assert.Error(w, waiting[1].failed())
		w.release(first)
		assert.Equal(w, "x", string(w.f.Get(key).Value))
		w.f.Delete(key)
		w.clear()
	})
}

// A holder that dies hands nothing on. Its successor queries at once.
func TestAWaiterKnownAsASuccessorQueriesWhenTheHolderDies(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
		holder, waiting := w.queueUp(3)
		w.release(holder)
		w.release(waiting[0].won())
		second := waiting[1].won() // handed the queue, with the third as its successor
		synctest.Wait()
		began := time.Now()
		w.f.Delete(second.Key())
		c := waiting[2].won()
		assert.LessOrEqual(w, time.Since(began), time.Millisecond)
		w.release(c)
		w.clear()
	})
}

// swallowing makes every member withhold the events that f picks.
func (w *fixture) swallowing(f func(ev *mvccpb.Event) bool) {
	for _, m := range w.f.Members() {
		m.EditWatches(func(r *pb.WatchResponse) []*pb.WatchResponse {
			had := len(r.Events)
			r.Events = slices.DeleteFunc(r.Events, f)
			if had > 0 && len(r.Events) == 0 {
				return nil
			}
			return []*pb.WatchResponse{r}
		})
	}
}

// A2, A4: a handoff that no watch delivers is found by a read. Neither a read nor a query takes it
// for a foreign write to the key.
func TestAHandoffThatWatchesMissIsFoundByARenewal(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
		holder, waiting := w.queueUp(2)
		w.release(holder)
		first := waiting[0].won()
		w.swallowing(func(*mvccpb.Event) bool { return true })
		began := time.Now()
		w.release(first)
		c := waiting[1].won()
		assert.Less(w, time.Since(began), lease.DefaultTTL/2)
		time.Sleep(lease.DefaultTTL)
		w.held(c)
		require.NoError(w, c.Confirm(w.Context()))
		w.release(c)
		w.clear()
	})
}

// The watch of a waiter's own key may miss the handoff, or deliver it late, after the watch of the
// predecessor made the waiter query.
func TestAHandoffFoundAfterTheAnswerIsNotAnOverwriting(t *testing.T) {
	for _, looked := range []bool{false, true} { // by a read, or by Confirm
		inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
			holder, waiting := w.queueUp(3)
			w.release(holder)
			w.swallowing(func(ev *mvccpb.Event) bool { return ev.Type == etcdapi.EventPut })
			w.release(waiting[0].won())
			c := waiting[1].won()
			if looked {
				time.Sleep(lease.DefaultTTL)
			}
			w.held(c)
			require.NoError(w, c.Confirm(w.Context()))
			kv := w.f.Get(c.Key())
			assert.EqualValues(w, 2, kv.Version, "handed off to")
			w.f.Put(c.Key(), string(kv.Value), kv.Lease)
			time.Sleep(lease.DefaultTTL)
			w.oneCause(ErrKeyOverwritten, c.Err())
			w.release(waiting[2].won())
			w.clear()
		})
	}
}

// An operator's write to a waiting key is not a handoff.
func TestAForgedOrForeignWriteToAWaitingKeyIsALoss(t *testing.T) {
	for name, write := range map[string]func(w *fixture, kv *mvccpb.KeyValue){
		"a word":         func(w *fixture, kv *mvccpb.KeyValue) { w.f.Put(string(kv.Key), "x", kv.Lease) },
		"the same value": func(w *fixture, kv *mvccpb.KeyValue) { w.f.Put(string(kv.Key), string(kv.Value), kv.Lease) },
		"off the lease": func(w *fixture, kv *mvccpb.KeyValue) {
			w.f.Put(string(kv.Key), string(kv.Value)+"\ngranted a-1 3\n", 0)
		},
		"no revision": func(w *fixture, kv *mvccpb.KeyValue) {
			w.f.Put(string(kv.Key), string(kv.Value)+"\ngranted a-1 x\n", kv.Lease)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
				holder, waiting := w.queueUp(1)
				write(w, w.f.Get(w.keyAt(1)))
				w.oneCause(ErrKeyOverwritten, waiting[0].failed())
				synctest.Wait() // the key is removed in the background
				w.held(holder)
				w.release(holder)
				w.clear()
			})
		})
	}
}

// Rule A2: a handoff by a key that is not the predecessor makes the waiter query. It holds only if
// the answer says so.
// rule: A2
func TestAHandoffByAnotherKeyIsAReasonToQueryAndNoMore(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
		holder, waiting := w.queueUp(1)
		kv := w.f.Get(w.keyAt(1))
		w.f.Put(string(kv.Key), string(kv.Value)+"\ngranted 7f-1 3\n", kv.Lease)
		synctest.Wait()
		assert.False(w, isClosed(waiting[0].done))
		w.held(holder)
		w.release(holder)
		w.release(waiting[0].won())
		w.clear()
	})
}

// A query that hangs does not keep a waiter from learning of the handoff.
func TestAHandoffEndsAQueryThatHangs(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
		holder, waiting := w.queueUp(2)
		w.release(holder)
		first := waiting[0].won()
		w.swallowing(func(ev *mvccpb.Event) bool { return ev.Type == etcdapi.EventPut }) // a renewal finds it
		hanging := w.f.Inject(isQuery.rule(etcdfake.Rule{Hang: true}))
		began := time.Now()
		w.release(first)
		c := waiting[1].won()
		assert.NotZero(w, hanging.Hits())
		assert.Less(w, time.Since(began), lease.DefaultTTL/2)
		hanging.Lift()
		w.release(c)
		w.clear()
	})
}

// Nor does a query that is sent in the instant of the handoff.
func TestAQueryThatIsSentAfterTheHandoffEndsAtOnce(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(w *fixture) {
		c := w.acquire(w.session())
		w.f.Inject(isQuery.rule(etcdfake.Rule{Hang: true}))
		began := time.Now()
		q := query{own: c.own()}
		c.prepare(&q)
		_, err := c.sendQuery(w.Context(), q.txn)
		assert.Error(w, err)
		assert.Equal(w, began, time.Now())
		w.f.LiftAll()
		w.release(c)
		w.clear()
	})
}

// Keys that are not a lock's are never written to.
func TestOthersInTheQueueAreNotHandedOffTo(t *testing.T) {
	for name, value := range map[string]string{
		"a candidate": "value of mine", "an empty value": "", "a JSON value": `{"owner":"me"}`, "a value of two lines": "a\nb",
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
				holder, waiting := w.queueUp(1)
				candidate := w.acquiring(w.Context(), w.session(), Request{Value: []byte(value)})
				s := w.session()
				last := w.acquiring(w.Context(), s, takingHandoffs(s))
				w.release(holder)
				w.release(waiting[0].won())
				c := candidate.won()
				kv := w.f.Get(c.Key())
				assert.Equal(w, value, string(kv.Value))
				assert.EqualValues(w, 1, kv.Version, "written once")
				w.release(c)
				w.release(last.won())
				w.clear()
			})
		})
	}
}

// T3, N5: a handoff to a session that has ended has no effect.
func TestAHandoffAfterTheDeadlineIsNotHeld(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
		holder, waiting := w.queueUp(3)
		w.release(holder)
		first := waiting[0].won()
		lease := w.f.Get(w.keyAt(1)).Lease
		// The second's session receives nothing any more, while its lease lives on.
		w.f.Inject(etcdfake.Rule{Method: "LeaseKeepAlive", Lose: true, Match: func(q etcdfake.Request) bool {
			r, ok := q.Message.(*pb.LeaseKeepAliveRequest)
			return ok && r.ID == lease
		}})
		w.f.SetClockRate(0.1)
		assert.Error(w, waiting[1].failed())
		w.release(first)
		w.f.SetClockRate(1)
		w.release(waiting[2].won())
		w.clear()
	})
}

// R1: a release works on a full disk, handoff or not.
func TestAReleaseWithASuccessorWorksOnAFullDisk(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
		holder, waiting := w.queueUp(2)
		w.release(holder)
		first := waiting[0].won()
		w.f.SetNoSpace(true)
		assert.NoError(w, first.Release(w.Context(), errGivenBack))
		c := waiting[1].won()
		w.release(c)
		w.f.SetNoSpace(false)
		w.clear()
	})
}

// A release whose handoff is refused may succeed without it.
func TestAReleaseWhoseHandoffIsRefusedIsTriedWithoutIt(t *testing.T) {
	for name, refusal := range map[string]error{
		"permission": rpctypes.ErrGRPCPermissionDenied, "size": rpctypes.ErrGRPCRequestTooLarge, "operations": rpctypes.ErrGRPCTooManyOps,
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
				holder, waiting := w.queueUp(2)
				w.release(holder)
				first := waiting[0].won()
				w.f.Inject(isHandoff.rule(etcdfake.Rule{Lose: true, Err: refusal}))
				w.release(first)
				w.release(waiting[1].won())
				w.clear()
			})
		})
	}
}

// A waiter that gives up in the instant of its handoff leaves nothing behind.
func TestGivingUpInTheInstantOfAHandoffLeavesTheQueueFree(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
		for range testscale.Of(15, 50) {
			holder, waiting := w.queueUp(1)
			ctx, cancel := context.WithCancel(w.Context())
			s := w.session()
			quitter := w.acquiring(ctx, s, takingHandoffs(s))
			last := w.session()
			after := w.acquiring(w.Context(), last, takingHandoffs(last))
			w.release(holder)
			c := waiting[0].won()
			go cancel()
			require.NoError(w, c.Release(w.Context(), errGivenBack))
			<-quitter.done
			if quitter.err == nil {
				w.release(quitter.c)
			}
			w.release(after.won())
		}
		w.clear()
	})
}
