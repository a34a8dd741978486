package lock_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/elect"
	"github.com/pawl-locks/pawl/internal/etcdapi"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/inmemory"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
)

// Hazard A12: when the waiter in the middle leaves, or dies, the last one goes on waiting for the
// first.
// rule: A2
func TestAWaiterWhoseNeighbourLeavesWaitsForTheOneBefore(t *testing.T) {
	for _, how := range []string{"gives up", "dies"} {
		t.Run(how, func(t *testing.T) {
			inBubble(t, func(w *fixture) {
				a := w.acquire(w.session())
				ctx, cancel := context.WithCancel(w.Context())
				defer cancel()
				sb := w.session()
				b := w.acquiring(ctx, mutex(sb))
				c := w.waiting(w.session())
				if how == "dies" {
					w.f.Revoke(sb.ID())
				} else {
					cancel()
				}
				require.Error(w, b.failed())
				time.Sleep(time.Minute)
				require.True(w, c.waits())
				w.held(a)
				w.release(a)
				w.release(c.won())
				w.clear()
			})
		})
	}
}

// Hazard A10: when its neighbour leaves, a waiter follows the one right before that, and sleeps on
// when the holder releases.
func TestAWaiterWhoseNeighbourLeavesIsNotWokenByTheHolder(t *testing.T) {
	inBubble(t, func(w *fixture) {
		a := w.acquire(w.session())
		b := w.waiting(w.session())
		ctx, leave := context.WithCancel(w.Context())
		defer leave()
		c := w.acquiring(ctx, mutex(w.session()))
		d := w.waiting(w.session())
		leave()
		require.Error(w, c.failed())
		synctest.Wait()
		before := w.f.Counts()
		w.release(a)
		h := b.won()
		synctest.Wait()
		assert.LessOrEqual(w, w.f.Counts().Since(before).Received["Txn"], 2, "a release and a confirmation")
		w.release(h)
		w.release(d.won())
		w.clear()
	})
}

// A2, K4: an answer from before its key was put does not make an acquisition first, whatever it
// shows. It ends the session, because the cluster went back.
func TestAnAnswerFromBeforeTheOwnKeyDoesNotGiveTheLock(t *testing.T) {
	inBubble(t, func(w *fixture) {
		h := w.acquire(w.session())
		ctx, giveUp := context.WithCancel(w.Context())
		between := w.acquiring(ctx, mutex(w.session()))
		last := w.waiting(w.session())
		w.f.Inject(etcdfake.Rule{Op: "confirm position", Edit: func(_ etcdfake.Request, m etcdapi.Message) {
			resp := m.(*pb.TxnResponse)
			resp.Header.Revision = int64(h.Token()) - 1
			resp.Responses[0].GetResponseRange().Kvs = nil // as when nobody held it
		}})
		giveUp() // so that the last one queries who is ahead
		assert.ErrorIs(w, between.failed(), context.Canceled)
		w.oneCause(pawl.ErrClusterChanged, last.failed())
		w.held(h)
	})
}

// Hazard A10: one release of the predecessor of a thousand waiters wakes one, and the others send
// nothing.
// rule: A3
func TestOneReleaseWakesOneOfManyWaiters(t *testing.T) {
	inBubble(t, func(w *fixture) {
		h := w.acquire(w.session())
		ctx, cancel := context.WithCancel(w.Context())
		var queue []*acquireCall
		for range 10 {
			s := w.session()
			for range testscale.Of(20, 100) {
				queue = append(queue, w.acquiring(ctx, mutex(s)))
			}
		}
		before := w.f.Counts()
		began := time.Now()
		w.release(h)
		h = queue[0].won()
		synctest.Wait()
		assert.Zero(w, time.Since(began), "no fixed sleeps (A11)")
		assert.Equal(w, 2, w.f.Counts().Since(before).Received["Txn"], "a release and a confirmation")
		cancel()
		for _, a := range queue[1:] {
			assert.ErrorIs(w, a.failed(), context.Canceled)
		}
		w.release(h)
		w.clear()
	})
}

// Rule A4, hazard E3: compaction is not an error, and the waiter keeps its position.
// rule: A4
func TestCompactionWhileWaitingKeepsThePosition(t *testing.T) {
	inBubble(t, func(w *fixture) {
		h := w.acquire(w.session())
		first, second := w.waiting(w.session()), w.waiting(w.session())
		for i := range 600 {
			if i%50 == 25 { // watches that are made again begin before what is compacted
				for _, m := range w.f.Members() {
					m.Reset()
				}
			}
			w.f.Put("other", fmt.Sprint(i), 0)
			w.f.Compact(w.f.Revision())
			time.Sleep(100 * time.Millisecond)
		}
		require.True(w, first.waits())
		require.True(w, second.waits())
		w.release(h)
		h = first.won()
		assert.True(w, second.waits())
		w.release(h)
		w.release(second.won())
		w.clear()
	})
}

// A4: if a deletion was compacted before the watch could deliver it, the waiter queries as soon as
// it knows of the compaction, without waiting for the next renewal's read.
func TestADeletionThatWasCompactedIsQueried(t *testing.T) {
	inBubble(t, func(w *fixture) {
		h := w.acquire(w.session())
		s := w.session()
		a := w.waiting(s)
		time.Sleep(s.TTL()/4 + 100*time.Millisecond) // a renewal has just read
		noStreams := w.noStreams()
		w.release(h)
		w.f.Put("other", "", 0)
		w.f.Compact(w.f.Revision())
		time.Sleep(100 * time.Millisecond)
		noStreams.Lift()
		began := time.Now()
		next := a.won()
		assert.LessOrEqual(w, time.Since(began), 1500*time.Millisecond)
		w.release(next)
		w.clear()
	})
}

// Hazard A3, rule A4: a waiter whose watch is on a member that is cut off from its peers acquires
// in a bounded time.
// rule: A4
func TestAWaiterOnAnIsolatedMemberIsNoZombie(t *testing.T) {
	for i := range 3 {
		t.Run(fmt.Sprint("member ", i), func(t *testing.T) {
			inBubble(t, func(w *fixture) {
				h := w.acquire(w.session())
				var queue []*acquireCall
				for range 6 {
					queue = append(queue, w.waiting(w.session()))
				}
				w.f.Member(i).Isolate()
				require.NoError(w, h.Release(w.Context()))
				began := time.Now()
				for _, a := range queue {
					require.NoError(w, a.won().Release(w.Context()))
				}
				assert.LessOrEqual(w, time.Since(began), 6*15*time.Second/4+10*time.Second)
			})
		})
	}
}

// H2: watches that deliver nothing at all cost only time, because the session's renewals read (A4).
// rule: A4
func TestAWaiterWhoseWatchesAreSilentAcquiresByARead(t *testing.T) {
	inBubble(t, func(w *fixture) {
		h := w.acquire(w.session())
		w.f.Inject(etcdfake.Rule{Method: "Watch", Lose: true})
		s := w.session()
		a := w.waiting(s)
		time.Sleep(time.Second)
		w.release(h)
		began := time.Now()
		w.release(a.won())
		assert.LessOrEqual(w, time.Since(began), s.TTL()/2)
		w.clear()
	})
}

// Hazard A9: the predecessor is deleted between the answer that showed it and the watch.
// rule: A3
func TestADeletionBetweenReadAndWatchIsNotMissed(t *testing.T) {
	inBubble(t, func(w *fixture) {
		h := w.acquire(w.session())
		s := w.session()
		w.f.Inject(etcdfake.Rule{Method: "Watch", Times: 1, Delay: time.Second, Match: func(q etcdfake.Request) bool {
			r, _ := q.Message.(*pb.WatchRequest)
			return string(r.GetCreateRequest().GetKey()) == h.Key()
		}})
		a := w.waiting(s)
		w.release(h)
		began := time.Now()
		w.release(a.won())
		assert.LessOrEqual(w, time.Since(began), 1100*time.Millisecond, "delivered by the watch, once it is made, and not found by a read")
		w.clear()
	})
}

// Hazard A8: a key of the same name that is deleted and made again is a different key.
func TestAPredecessorThatIsRecreatedIsASuccessor(t *testing.T) {
	inBubble(t, func(w *fixture) {
		w.f.Put("name/peer", "", 0)
		a := w.waiting(w.session())
		w.f.Delete("name/peer")
		w.f.Put("name/peer", "", 0)
		h := a.won()
		w.f.Delete("name/peer")
		w.release(h)
		w.clear()
	})
}

// Hazard A8: if the key of a waiting acquisition is deleted, and the same session begins another
// one in the meantime, neither takes the other's key.
// rule: A1
func TestADeletedKeyAndTheSessionsNextOneAreTwo(t *testing.T) {
	inBubble(t, func(w *fixture) {
		h := w.acquire(w.session())
		s := w.session()
		one := w.waiting(s)
		own := fmt.Sprintf("name/%x-1", s.ID())
		require.NotNil(w, w.f.Get(own))
		w.f.Inject(etcdfake.Rule{Method: "Watch", HoldAnswer: 300 * time.Millisecond})
		w.f.Delete(own)
		two := w.waiting(s)
		assert.Equal(w, []string{h.Key(), fmt.Sprintf("name/%x-2", s.ID())}, w.inOrder())
		w.oneCause(lock.ErrKeyDeleted, one.failed())
		assert.True(w, two.waits())
		w.release(h)
		w.release(two.won())
		w.clear()
	})
}

// inOrder returns the queue's keys, the first-created one first.
func (w *fixture) inOrder() []string {
	all := w.keys()
	slices.SortFunc(all, func(a, b string) int { return int(w.f.Get(a).CreateRevision - w.f.Get(b).CreateRevision) })
	return all
}

// Hazard A11: it takes four trips from release to acquisition: the release, its event, the query
// and its answer.
func TestAHandoverTakesFourTrips(t *testing.T) {
	inBubble(t, func(w *fixture) {
		h := w.acquire(w.session())
		a := w.waiting(w.session())
		time.Sleep(time.Second)
		const trip = 20 * time.Millisecond
		for _, m := range w.f.Members() {
			m.SetDelay(etcdfake.Fixed(trip), etcdfake.Fixed(trip))
		}
		began := time.Now()
		go h.Release(w.Context())
		next := a.won()
		assert.Equal(w, 4*trip, time.Since(began))
		w.release(next)
		w.clear()
	})
}

// Hazard S15: a waiter does not conclude from the time that has passed that a holder's lease has
// ended. It waits for the key to be deleted, which new leaders delay.
func TestAWaiterWaitsForTheKeyToGoAndNotForTimeToPass(t *testing.T) {
	inBubble(t, func(w *fixture) {
		s, err := w.client(pawl.Config{}).NewSession(w.Context(), lease.Options{TTL: 3 * time.Second})
		require.NoError(w, err)
		h := w.acquire(s)
		a := w.waiting(w.session())
		w.f.Inject(etcdfake.Rule{Method: "LeaseKeepAlive", Lose: true, Match: func(q etcdfake.Request) bool {
			return q.Message.(*pb.LeaseKeepAliveRequest).ID == s.ID()
		}})
		w.f.Inject(etcdfake.Rule{Method: "LeaseRevoke", Lose: true})
		for i := range 15 { // each one starts all leases again
			w.f.ChangeLeader(i % 3)
			time.Sleep(2 * time.Second)
			if i > 0 {
				assert.ErrorIs(w, h.Err(), lease.ErrExpired)
			}
			require.True(w, a.waits(), "its key is there")
		}
		require.NotNil(w, w.f.Get(h.Key()))
		w.held(a.won())
		assert.Nil(w, w.f.Get(h.Key()))
	})
}

// Hazard A17: a waiter behind a key that is not pawl's logs that.
func TestWaitingForAForeignKeyIsLogged(t *testing.T) {
	inBubble(t, func(w *fixture) {
		var log inmemory.Log
		s, err := w.client(pawl.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}).Session(w.Context())
		require.NoError(w, err)
		w.f.Put("name/stray", "", 0)
		a := w.waiting(s)
		assert.Contains(w, log.String(), "waiting for a key that is not pawl's")
		assert.Contains(w, log.String(), "key=name/stray")
		w.f.Delete("name/stray")
		w.release(a.won())
	})
}

// A lock and an election of one name exclude each other, which is seldom meant.
func TestALockAndAnElectionThatWaitForEachOtherAreLoggedOnce(t *testing.T) {
	inBubble(t, func(w *fixture) {
		var log inmemory.Log
		logging := w.client(pawl.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		count := func() int {
			time.Sleep(time.Minute)
			synctest.Wait()
			return strings.Count(log.String(), "a lock and an election use one name")
		}
		s, err := logging.Session(w.Context())
		require.NoError(w, err)

		h := w.acquire(w.session())
		a := w.waiting(s)
		assert.Zero(w, count(), "a lock waits for a lock")
		candidate := w.campaigning(s) // behind a lock of its own session, which this process knows
		w.release(h)
		w.release(a.won())
		<-candidate

		term, err := elect.New(w.session(), "name", elect.Options{}).Campaign(w.Context(), nil)
		require.NoError(w, err)
		a = w.waiting(s)
		assert.Equal(w, 1, count(), "a lock waits for a candidate")
		assert.Contains(w, log.String(), term.Key())
		require.NoError(w, term.Resign(w.Context()))
		w.release(a.won())

		h = w.acquire(w.session())
		candidate = w.campaigning(s)
		assert.Equal(w, 2, count(), "a candidate waits for a lock")
		w.release(h)
		<-candidate
		w.clear()
	})
}

// Close does not wait for reads that only the log needs, and does not report them as left.
func TestCloseDoesNotWaitForWhatIsReadForTheLog(t *testing.T) {
	inBubble(t, func(w *fixture) {
		_, err := elect.New(w.session(), "name", elect.Options{}).Campaign(w.Context(), nil)
		require.NoError(w, err)
		logging := w.client(pawl.Config{Logger: slog.New(slog.NewTextHandler(new(inmemory.Log), nil))})
		s, err := logging.Session(w.Context())
		require.NoError(w, err)
		hang := w.f.Inject(etcdfake.Rule{Op: "read predecessor", Hang: true})
		a := w.waiting(s)
		for hang.Hits() == 0 {
			time.Sleep(100 * time.Millisecond)
		}
		began := time.Now()
		assert.NoError(w, logging.Close())
		assert.LessOrEqual(w, time.Since(began), time.Second)
		w.oneCause(lease.ErrClosed, a.failed())
	})
}

// Hazard A14: two goroutines on one session exclude each other, on one Mutex or two.
func TestGoroutinesOfOneSessionExcludeEachOther(t *testing.T) {
	inBubble(t, func(w *fixture) {
		s := w.session()
		m := mutex(s)
		h, err := m.Acquire(w.Context())
		require.NoError(w, err)
		one, two := w.acquiring(w.Context(), m), w.acquiring(w.Context(), mutex(s))
		assert.True(w, one.waits() && two.waits())
		_, err = m.TryAcquire(w.Context())
		assert.ErrorIs(w, err, lock.ErrBusy)
		w.release(h)
		h = one.won()
		assert.True(w, two.waits())
		w.release(h)
		w.release(two.won())
		w.clear()
	})
}

func TestSixtyFourGoroutinesOnOneMutexLoseNoUpdate(t *testing.T) {
	inBubble(t, func(w *fixture) {
		m := mutex(w.session())
		counter := 0 // what the lock protects; the race detector looks on
		var inside sync.Mutex
		var all sync.WaitGroup
		for range 64 {
			all.Go(func() {
				for range 3 {
					err := m.Do(w.Context(), func(context.Context, *lock.Held) error {
						if !inside.TryLock() {
							return errors.New("two at once")
						}
						defer inside.Unlock()
						counter++
						return nil
					})
					assert.NoError(w, err)
				}
			})
		}
		all.Wait()
		assert.Equal(w, 192, counter)
		w.clear()
	})
}

// Hazard A17: holding "a/b" does not block "a".
func TestNestedNamesAreDisjoint(t *testing.T) {
	inBubble(t, func(w *fixture) {
		s := w.session()
		for _, name := range []string{"a/b", "a", "a/", "/a", "/", "//", "a\x00", "%", "%2F", "a%2Fb", "ü", "//pawl/x", "\xff"} {
			h, err := lock.New(s, name, lock.Options{}).TryAcquire(w.Context())
			require.NoError(w, err, "%q", name)
			assert.Equal(w, name, h.Name())
			w.held(h)
		}
	})
}

// Hazard A16: a try of a held lock is busy at once and writes nothing. The error's text names the
// holder.
func TestTryAcquireOfAHeldLockWritesNothing(t *testing.T) {
	inBubble(t, func(w *fixture) {
		holder := w.session()
		h := w.acquire(holder)
		s := w.session()
		synctest.Wait() // the watch of the session key
		rev, before := w.f.Revision(), w.f.Counts()
		_, err := mutex(s).TryAcquire(w.Context())
		assert.ErrorIs(w, err, lock.ErrBusy)
		assert.Contains(w, err.Error(), h.Key())
		assert.Contains(w, err.Error(), fmt.Sprintf("%x", holder.ID()))
		assert.Equal(w, rev, w.f.Revision())
		assert.Equal(w, map[string]int{"Txn": 1}, w.f.Counts().Since(before).Received)
		w.release(h)
		h, err = mutex(s).TryAcquire(w.Context())
		require.NoError(w, err)
		w.release(h)
		w.clear()
	})
}

// Hazard A16: if two try at the same moment, one wins, and the other's key is never put.
func TestTwoWhoTryAtOnceAreOneHolderAndOneBusy(t *testing.T) {
	inBubble(t, func(w *fixture) {
		one, two := mutex(w.session()), mutex(w.session())
		w.f.Inject(etcdfake.Rule{Op: "read who holds", Times: 2, HoldAnswer: time.Second}) // both have read before either puts
		results := make(chan error, 2)
		for _, m := range []*lock.Mutex{one, two} {
			go func() { _, err := m.TryAcquire(w.Context()); results <- err }()
		}
		a, b := <-results, <-results
		if a == nil {
			a, b = b, a
		}
		assert.ErrorIs(w, a, lock.ErrBusy)
		assert.NoError(w, b)
		assert.Len(w, w.keys(), 1)
	})
}

// Client.Close ends all waiters, and nothing is left.
func TestClosingTheClientEndsItsWaiters(t *testing.T) {
	inBubble(t, func(w *fixture) {
		h := w.acquire(w.session())
		c := w.client(pawl.Config{})
		s, err := c.Session(w.Context())
		require.NoError(w, err)
		a := w.waiting(s)
		require.NoError(w, c.Close())
		w.oneCause(lease.ErrClosed, a.failed())
		assert.Len(w, w.keys(), 1)
		w.release(h)
		w.clear()
	})
}

// A waiter's error matches the end of its context and the cause, and its key is removed.
// rule: A6
func TestAWaiterThatGivesUpLeavesNothing(t *testing.T) {
	inBubble(t, func(w *fixture) {
		h := w.acquire(w.session())
		why := errors.New("enough")
		ctx, cancel := context.WithCancelCause(w.Context())
		a := w.acquiring(ctx, mutex(w.session()))
		require.Len(w, w.keys(), 2)
		cancel(why)
		err := a.failed()
		assert.ErrorIs(w, err, why)
		assert.ErrorIs(w, err, context.Canceled)
		assert.NotErrorIs(w, err, context.DeadlineExceeded)
		synctest.Wait()
		assert.Equal(w, []string{h.Key()}, w.keys())
		_, err = mutex(w.session()).Acquire(ctx) // it has ended before
		assert.ErrorIs(w, err, why)
		assert.ErrorIs(w, err, context.Canceled)
		w.release(h)
		w.clear()
	})
}
