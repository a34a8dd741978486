package queue

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/queue/state"
	"github.com/pawl-locks/pawl/internal/session"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/racedetector"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
	"github.com/pawl-locks/pawl/lease"
)

// queuesOf returns the queues of names. A name that begins with "+" is shared.
func (w *fixture) queuesOf(names ...string) (all []Queue) {
	for _, name := range names {
		q, err := New("", "name"+strings.TrimPrefix(name, "+"), false)
		require.NoError(w, err)
		q.Shared = name[0] == '+'
		all = append(all, q)
	}
	return all
}

// takes starts an acquisition of several names, and returns when it waits for something.
func (w *fixture) takes(ctx context.Context, s *session.Session, r Request, names ...string) *acquireCall {
	a := &acquireCall{w: w, done: make(chan struct{})}
	qs := w.queuesOf(names...)
	r = labelled(r, len(qs))
	go func() {
		defer close(a.done)
		a.c, a.err = Acquire(ctx, s, r, qs...)
	}()
	synctest.Wait()
	return a
}

// ML6: a set that loses a key in the instant in which it is won has no caller to release the rest.
func TestASetThatIsLostAsItIsWonLeavesNothing(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
		s := w.session()
		a := w.fresh(w.Context(), s, state.Options{}, w.queuesOf("a", "b")...)
		_, err := a.enter(w.Context(), labelled(Request{}, 2))
		require.NoError(w, err)
		a.apply(state.Won{}, nil)
		w.f.Delete(a.Key())
		a.apply(state.OwnDeleted{}, nil)
		require.ErrorIs(w, a.gaveUp(nil), ErrKeyDeleted)
		synctest.Wait()
		assert.Empty(w, w.f.Keys("name"), "without waiting for a TTL")
	})
}

// ML1, ML2, ML3: a set is held once it is first in all of its queues. Its keys have one create
// revision, and each of its names is taken meanwhile.
// rule: ML1, ML3, ML7
func TestASetIsHeldOnceItIsFirstInAllItsQueues(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
		ctx := w.Context()
		a := w.takes(ctx, w.session(), Request{}, "a").won()
		c := w.takes(ctx, w.session(), Request{}, "+c").won()
		set := w.takes(ctx, w.session(), Request{}, "a", "b", "c", "+d")
		behind := w.takes(ctx, w.session(), Request{}, "b")
		reader := w.takes(ctx, w.session(), Request{}, "+d").won()
		require.True(w, set.waits())
		require.True(w, behind.waits(), "the price: it is in the way on b, too")
		w.release(c)
		require.True(w, set.waits())
		w.release(a)
		held := set.won()
		revs := map[int64]bool{}
		for _, key := range held.AllKeys() {
			revs[w.f.Get(key).CreateRevision] = true
		}
		assert.Equal(w, map[int64]bool{int64(held.Token()): true}, revs)
		require.True(w, behind.waits())
		w.release(held)
		w.release(behind.won())
		w.release(reader)
		w.clear()
	})
}

// ML1: nobody waits in a circle, in whatever order the names are given, on one session or several,
// in any modes, with requests that fail and waiters that give up.
// rule: ML1, ML3
func TestSetsNeverWaitForOneAnotherInACircle(t *testing.T) {
	for seed := range racedetector.Of(3, testscale.Of[uint64](6, 100)) { // two without faults
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
				c := &crowd{fixture: w, rnd: rand.New(rand.NewPCG(seed, 1))}
				c.pace, c.hold = 20+c.n(200), 10+c.n(100)
				if seed > 1 { // with none, too
					for _, r := range []request{isEnqueue, isSettle, isQuery, isRelease, isUndo, isExplain} {
						c.fault(r)
					}
				}
				sessions := []*session.Session{w.session(), w.session(), w.session()}
				won := 0
				var workers sync.WaitGroup
				for i := range 6 {
					workers.Go(func() { c.takeSets(sessions[i%3], &won) })
				}
				workers.Wait()
				c.f.LiftAll()
				assert.NotZero(w, won)
				time.Sleep(10 * time.Second)
				for _, s := range sessions {
					w.release(w.takes(w.Context(), s, Request{}, "d", "c", "b", "a").won())
				}
				w.clear()
			})
		})
	}
}

// takeSets takes some of four names again and again.
func (c *crowd) takeSets(s *session.Session, won *int) {
	for range 25 {
		time.Sleep(c.ms(c.pace))
		names := []string{"a", "b", "c", "d"}
		for i := range names {
			j := i + c.n(len(names)-i)
			names[i], names[j] = names[j], names[i]
			if c.n(3) == 0 {
				names[i] = "+" + names[i]
			}
		}
		qs := c.queuesOf(names[:1+c.n(4)]...)
		limit := 10 * time.Minute // a circle would last until its end
		if c.n(4) == 0 {
			limit = c.ms(800)
		}
		ctx, cancel := context.WithTimeout(c.Context(), limit)
		a, err := Acquire(ctx, s, Request{Try: c.n(8) == 0}, qs...)
		cancel()
		if err != nil {
			if limit > time.Minute {
				assert.NotErrorIs(c, err, context.DeadlineExceeded, "it waited for ever")
			}
			continue
		}
		c.holdsSet(a)
		time.Sleep(c.ms(c.hold))
		c.mu.Lock()
		*won++
		c.mu.Unlock()
		c.holdsNoLonger(a)
		_ = a.Release(c.Context(), errGivenBack)
	}
}

// holdsSet records that a holds, beside others that may.
func (c *crowd) holdsSet(a *Acquisition) {
	c.mu.Lock()
	defer c.mu.Unlock()
	assert.NoError(c, a.Err())
	for _, other := range c.holders {
		for _, p := range a.queues {
			for _, q := range other.queues {
				if p.Name == q.Name && (!p.Shared || !q.Shared) {
					assert.Fail(c, "both hold", "%s: %v and %v", p.Name, other, a)
				}
			}
		}
	}
	c.holders = append(c.holders, a)
}

// ML6: the loss of one key ends the whole set at once, and the error names that key. The other
// names stay taken until the set is released.
// rule: ML6
func TestThePartialLossOfASetLeavesTheRestUntilItIsGivenBack(t *testing.T) {
	for name, lose := range map[string]func(w *fixture, key string){
		"deleted":     func(w *fixture, key string) { w.f.Delete(key) },
		"overwritten": func(w *fixture, key string) { w.f.Put(key, "another's", 0) },
	} {
		cause := map[string]error{"deleted": ErrKeyDeleted, "overwritten": ErrKeyOverwritten}[name]
		for i := range 3 {
			t.Run(fmt.Sprint(name, i), func(t *testing.T) {
				inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
					ctx := w.Context()
					held := w.takes(ctx, w.session(), Request{}, "a", "b", "+c").won()
					time.Sleep(time.Second) // armed
					lost := held.AllKeys()[i]
					lose(w, lost)
					synctest.Wait()
					w.oneCause(cause, held.Err())
					require.ErrorIs(w, held.Err(), ErrLost)
					assert.ErrorContains(w, held.Err(), fmt.Sprintf("%q", held.queues[i].Name))
					w.oneCause(cause, context.Cause(held.Context()))
					var waiting []*acquireCall
					for _, other := range []string{"a", "b", "c"} {
						waiting = append(waiting, w.takes(ctx, w.session(), Request{}, other))
					}
					time.Sleep(time.Second)
					for j, a := range waiting {
						assert.Equal(w, j != i, a.waits(), "%d", j)
					}
					require.ErrorIs(w, held.Release(ctx, errGivenBack), cause)
					for _, a := range waiting {
						w.release(a.won())
					}
					w.clear()
				})
			})
		}
	}
}

// ML6: a function of Do whose context has ended keeps the other names until it has
// returned, however long that takes, and a lock-delay counts from then.
// rule: ML6
func TestTheRestOfALostSetStaysWhileItsFunctionWorks(t *testing.T) {
	for name, lose := range map[string]func(w *fixture, key string){
		"deleted":     func(w *fixture, key string) { w.f.Delete(key) },
		"overwritten": func(w *fixture, key string) { w.f.Put(key, "another's", 0) },
	} {
		cause := map[string]error{"deleted": ErrKeyDeleted, "overwritten": ErrKeyOverwritten}[name]
		for _, delay := range []time.Duration{0, 20 * time.Second} {
			t.Run(fmt.Sprint(name, ", lock-delay ", delay), func(t *testing.T) {
				inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
					s := w.sessionWith(pawl.Config{Session: lease.Options{LockDelay: delay}})
					held := w.takes(w.Context(), s, Request{}, "a", "b").won()
					var other *acquireCall
					err := held.Do(w.Context(), errGivenBack, func(ctx context.Context) error {
						lose(w, held.AllKeys()[1])
						<-ctx.Done()
						other = w.takes(w.Context(), w.session(), Request{}, "a")
						time.Sleep(3 * s.TTL())
						assert.True(w, other.waits())
						return nil
					})
					began := time.Now()
					w.oneCause(cause, err)
					w.release(other.won())
					assert.InDelta(w, delay, time.Since(began), float64(time.Second))
					w.clear()
				})
			})
		}
	}
}

// ML6: Do on a set that is lost already gives the other names back, as Release would, unless
// another call's function still uses them.
func TestDoOnALostSetGivesTheRestBack(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
		held := w.takes(w.Context(), w.session(), Request{}, "a", "b").won()
		time.Sleep(time.Second) // then its keys are watched
		w.f.Delete(held.AllKeys()[1])
		synctest.Wait()
		began := time.Now()
		other := w.takes(w.Context(), w.session(), Request{}, "a")
		w.oneCause(ErrKeyDeleted, held.Do(w.Context(), errGivenBack, nil))
		w.release(other.won())
		assert.Less(w, time.Since(began), time.Second)
		w.clear()
	})
}

func TestDoOnALostSetLeavesTheRestToAnotherCallsFunction(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
		held := w.takes(w.Context(), w.session(), Request{}, "a", "b").won()
		var other *acquireCall
		err := held.Do(w.Context(), errGivenBack, func(ctx context.Context) error {
			w.f.Delete(held.AllKeys()[1])
			<-ctx.Done()
			w.oneCause(ErrKeyDeleted, held.Do(w.Context(), errGivenBack, nil))
			other = w.takes(w.Context(), w.session(), Request{}, "a")
			time.Sleep(time.Minute)
			assert.True(w, other.waits())
			return nil
		})
		w.oneCause(ErrKeyDeleted, err)
		w.release(other.won())
		w.clear()
	})
}

// ML6: what nobody claims is deleted one TTL later, and not before.
// rule: ML6
func TestTheRestOfALostSetGoesAfterATTL(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
		s := w.session()
		held := w.takes(w.Context(), s, Request{}, "a", "b").won()
		time.Sleep(time.Second)
		w.f.Delete(held.AllKeys()[0])
		synctest.Wait()
		began := time.Now()
		other := w.takes(w.Context(), w.session(), Request{}, "b")
		w.release(other.won())
		assert.InDelta(w, s.TTL(), time.Since(began), float64(time.Second))
		w.oneCause(ErrKeyDeleted, held.Release(w.Context(), errGivenBack))
		require.NoError(w, s.Err())
		w.clear()
	})
}

// ML6: the end of one key of a waiting set is an error at once, and the others are deleted.
// rule: ML6
func TestASetThatLosesAKeyWhileItWaitsFailsAtOnce(t *testing.T) {
	for name, lose := range map[string]func(w *fixture, key string){
		"deleted":     func(w *fixture, key string) { w.f.Delete(key) },
		"overwritten": func(w *fixture, key string) { w.f.Put(key, "another's", 0) },
	} {
		cause := map[string]error{"deleted": ErrKeyDeleted, "overwritten": ErrKeyOverwritten}[name]
		for i, which := range []string{"namea/", "nameb/", "namec/+"} {
			t.Run(fmt.Sprint(name, i), func(t *testing.T) {
				inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
					s := w.session()
					holder := w.takes(w.Context(), w.session(), Request{}, "a").won()
					a := w.takes(w.Context(), s, Request{}, "a", "b", "+c")
					own := slices.DeleteFunc(w.f.Keys(which), func(k string) bool { return k == holder.Key() })
					require.Len(w, own, 1)
					began := time.Now()
					lose(w, own[0])
					err := a.failed()
					assert.LessOrEqual(w, time.Since(began), 100*time.Millisecond)
					w.oneCause(cause, err)
					assert.NotErrorIs(w, err, ErrLost)
					time.Sleep(time.Second)
					assert.Equal(w, []string{holder.Key()}, w.f.Keys("name"))
					require.NoError(w, s.Err())
					w.release(holder)
					w.clear()
				})
			})
		}
	}
}

// ML5: an enqueue that was applied, and one of whose keys was deleted before it was settled, is
// undone. No key of it is left.
// rule: ML5
func TestASetWhoseEnqueueWasLostAndThenAKeyIsUndone(t *testing.T) {
	for _, gone := range []string{"namea/", "nameb/", "namec/"} {
		t.Run(gone, func(t *testing.T) {
			inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
				s := w.session()
				w.f.Inject(isEnqueue.rule(etcdfake.Rule{Err: rpctypes.ErrGRPCTimeout, Times: 1}))
				w.f.Inject(isSettle.rule(etcdfake.Rule{Delay: 300 * time.Millisecond, Times: 1}))
				ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
				defer cancel()
				a := w.takes(ctx, s, Request{}, "a", "b", "c")
				time.Sleep(100 * time.Millisecond)
				w.f.Delete(w.f.Keys(gone)[0])
				w.oneCause(ErrKeyDeleted, a.failed())
				w.clear()
			})
		})
	}
}

// ML3: the query that decides compares all keys of the set, whatever the watches have shown. Here
// they have not shown that one of the keys is gone.
func TestASetOfWhichAKeyIsGoneDoesNotWinWhereNoWatchShowsIt(t *testing.T) {
	for _, gone := range []string{"namea/", "nameb/", "namec/"} {
		t.Run(gone, func(t *testing.T) {
			inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
				holder := w.takes(w.Context(), w.session(), Request{}, "d").won()
				a := w.takes(w.Context(), w.session(), Request{}, "a", "b", "c", "d")
				require.True(w, a.waits())
				own := w.f.Keys(gone)[0]
				for _, m := range w.f.Members() {
					m.EditWatches(func(r *pb.WatchResponse) []*pb.WatchResponse {
						r.Events = slices.DeleteFunc(r.Events, func(ev *mvccpb.Event) bool { return string(ev.Kv.Key) == own })
						return []*pb.WatchResponse{r}
					})
				}
				w.f.Delete(own)
				w.release(holder)
				w.oneCause(ErrKeyDeleted, a.failed())
				w.clear()
			})
		})
	}
}

// ML4, A3: if its watches are silent, a set learns from a renewal's read that its keys exist, and
// that what it waits for does not.
// rule: ML4
func TestASetWhoseWatchesAreSilentIsTakenByARead(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
		holder := w.takes(w.Context(), w.session(), Request{}, "b").won()
		w.f.Inject(etcdfake.Rule{Method: "Watch", Lose: true})
		a := w.takes(w.Context(), w.session(), Request{}, "a", "b")
		w.release(holder)
		held := a.won()
		w.f.Delete(held.AllKeys()[1])
		<-held.Done()
		w.oneCause(ErrKeyDeleted, held.Err())
		_ = held.Release(w.Context(), errGivenBack)
		w.f.LiftAll()
		w.clear()
	})
}

// ML5, R1: a release needs no space. One that is not allowed for one name frees the others, and the
// last one once it is allowed.
// rule: ML5
func TestAReleaseOfASetFreesWhatItMay(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
		s := w.session()
		held := w.takes(w.Context(), s, Request{}, "a", "b", "c").won()
		w.f.SetNoSpace(true)
		w.release(held)
		w.f.SetNoSpace(false)

		for name, err := range map[string]error{"permission": rpctypes.ErrGRPCPermissionDenied, "operations": rpctypes.ErrGRPCTooManyOps} {
			held = w.takes(w.Context(), s, Request{}, "a", "b", "c").won()
			w.f.Inject(etcdfake.Rule{Method: "Txn", Lose: true, Err: err, Match: func(q etcdfake.Request) bool {
				t := isUndo.of(q)
				forbidden := t != nil && slices.ContainsFunc(t.Success, func(op *pb.RequestOp) bool { return string(op.GetRequestDeleteRange().GetKey()) == held.keys[1] })
				return isRelease.is(q) || t != nil && len(t.Success) > 1 || name == "permission" && (forbidden || isExplain.is(q) && len(isExplain.of(q).Success) > 1)
			}})
			got := held.Release(w.Context(), errGivenBack)
			time.Sleep(2 * time.Second)
			if name == "permission" {
				require.ErrorIs(w, got, cluster.ErrUnknown)
				require.ErrorContains(w, got, "permission denied")
				assert.Equal(w, held.keys[1:2], w.f.Keys("name"), "as long as it is forbidden")
			} else {
				require.NoError(w, got)
				assert.Empty(w, w.f.Keys("name"))
			}
			require.NoError(w, held.Release(w.Context(), errGivenBack), "it was held until then")
			w.f.LiftAll() // now the last may go in the background
			w.clear()
		}
	})
}

// ML5: giving up frees what may be freed if the server refuses all at once.
// rule: ML5
func TestASetThatGivesUpIsRemovedKeyByKeyWhereItHasTo(t *testing.T) {
	for _, err := range []error{rpctypes.ErrGRPCPermissionDenied, rpctypes.ErrGRPCTooManyOps} {
		inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
			holder := w.takes(w.Context(), w.session(), Request{}, "a").won()
			ctx, cancel := context.WithCancel(w.Context())
			a := w.takes(ctx, w.session(), Request{}, "a", "b", "c")
			w.f.Inject(etcdfake.Rule{Method: "Txn", Lose: true, Err: err, Match: func(q etcdfake.Request) bool {
				t := isUndo.of(q)
				return t != nil && len(t.Success) > 1
			}})
			cancel()
			require.ErrorIs(w, a.failed(), context.Canceled)
			time.Sleep(2 * time.Second)
			assert.Equal(w, []string{holder.Key()}, w.f.Keys("name"))
			w.release(holder)
			w.clear()
		})
	}
}

// The error for a refused set lists all names, because the refusal cannot say which.
func TestARefusedSetSaysWhatItNeeds(t *testing.T) {
	for want, err := range map[string]error{
		`"//pawl/" and from "namea/" and from "nameb/"`: rpctypes.ErrGRPCPermissionDenied,
		"--max-txn-ops is too low for 2 names":          rpctypes.ErrGRPCTooManyOps,
	} {
		inBubble(t, etcdfake.Options{}, func(w *fixture) {
			w.f.Inject(isEnqueue.rule(etcdfake.Rule{Lose: true, Err: err}))
			a := w.takes(w.Context(), w.session(), Request{}, "a", "b")
			require.ErrorContains(w, a.failed(), want)
			w.f.LiftAll()
			w.clear()
		})
	}
}

// R1: a set of which one key was gone before its release was not held until then. The rest is
// freed.
func TestAReleaseOfASetOfWhichAKeyIsGoneSaysLost(t *testing.T) {
	for i := range 3 {
		inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
			held := w.takes(w.Context(), w.session(), Request{}, "a", "b", "c").won() // not watched yet
			w.f.Delete(held.keys[i])
			err := held.Release(w.Context(), errGivenBack)
			w.oneCause(ErrKeyDeleted, err)
			require.ErrorIs(w, err, ErrLost)
			assert.ErrorContains(w, err, fmt.Sprintf("%q", held.queues[i].Name))
			assert.Equal(w, state.KeyDeleted, held.now().End)
			w.clear()
		})
	}
}
