package queue

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

// A6: what many acquisitions of one session leave is deleted together, so that a free lock does not
// stay shut for a round trip each.
// rule: A6
func TestWaitersOfOneSessionThatGaveUpAreRemovedTogether(t *testing.T) {
	const waiters, roundTrip = 300, 30 * time.Millisecond
	inBubble(t, etcdfake.Options{Members: 1}, func(w *fixture) {
		holder, next := w.session(), w.session()
		h := w.acquire(holder)
		s := w.session()
		ctx, giveUp := context.WithCancel(w.Context())
		var all sync.WaitGroup
		for range waiters {
			all.Go(func() { _, _ = Acquire(ctx, s, Request{}, w.queue()) })
		}
		synctest.Wait()
		after := w.waiting(next)
		w.f.Member(0).SetDelay(etcdfake.Fixed(roundTrip/2), etcdfake.Fixed(roundTrip/2))
		giveUp()
		all.Wait()
		began := time.Now()
		require.NoError(w, h.Release(w.Context(), errGivenBack))
		c := after.won()
		assert.LessOrEqual(w, time.Since(began), 20*roundTrip)
		w.f.Member(0).SetDelay(nil, nil)
		w.release(c)
		w.clear()
	})
}

// H1: a lease that is gone takes all its keys in one revision. What the session queries then does
// not grow with its locks.
// rule: H1
func TestARevokedLeaseWithAThousandLocksIsReadAFewTimes(t *testing.T) {
	const locks = 1000
	inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
		s := w.session()
		var held []*Acquisition
		for i := range locks {
			q, err := New("", "many"+string(rune('0'+i%10))+string(rune('0'+i/10%10))+string(rune('0'+i/100)), false)
			require.NoError(w, err)
			c, err := Acquire(w.Context(), s, Request{}, q)
			require.NoError(w, err)
			held = append(held, c)
		}
		time.Sleep(time.Second) // all are watched
		w.f.Inject(etcdfake.Rule{Method: "LeaseRevoke", Lose: true})
		for _, m := range w.f.Members() {
			m.EditWatches(etcdfake.SwallowDeletes("//pawl/"))
		}
		before := w.f.Counts()
		w.f.Revoke(s.ID())
		synctest.Wait()
		assert.LessOrEqual(w, w.f.Counts().Since(before).Received["Txn"], 5)
		for _, c := range held {
			require.ErrorIs(w, c.Err(), ErrLost) // the deletion of its key, or of the first one's
		}
		w.oneCause(errRevoked, s.Err())
	})
}

// H1: Err reports a deletion at once, whether or not anybody answers.
// rule: H1
func TestErrOfADeletedKeyWaitsForNobody(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
		c := w.acquire(w.session())
		time.Sleep(time.Second) // it is watched
		for _, method := range []string{"Txn", "LeaseKeepAlive"} {
			w.f.Inject(etcdfake.Rule{Method: method, Hang: true})
		}
		w.f.Delete(c.Key())
		began := time.Now()
		<-c.Done()
		w.oneCause(ErrKeyDeleted, c.Err())
		assert.Zero(w, time.Since(began))
	})
}

// A3: no time limit of a request bounds an acquisition. With a context that never ends, it waits as
// long as its session is valid.
func TestAcquireWaitsAsLongAsItsSessionIsValid(t *testing.T) {
	for name, waits := range map[string]bool{"arrives": false, "waits": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
				s := w.sessionWith(pawl.Config{Session: leaseOf(300 * time.Second)})
				var holder *Acquisition
				at := isEnqueue
				if waits {
					holder, at = w.acquire(w.sessionWith(pawl.Config{Session: leaseOf(300 * time.Second)})), isQuery
				}
				noLeader := w.f.Inject(at.rule(etcdfake.Rule{Lose: true, Err: errNoLeader}))
				a := w.acquiring(context.Background(), s, Request{})
				if waits {
					w.release(holder)
				}
				time.Sleep(time.Minute)
				require.False(w, isClosed(a.done), "gave up: %v", a.err)
				noLeader.Lift()
				w.release(a.won())
				w.clear()
			})
		})
	}
}

// It waits that long, but no longer.
func TestAcquireThatCannotBeSentEndsWithItsSession(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
		s := w.session()
		w.f.Inject(isEnqueue.rule(etcdfake.Rule{Lose: true, Err: errNoLeader}))
		a := w.acquiring(context.Background(), s, Request{})
		w.f.Revoke(s.ID())
		w.oneCause(errRevoked, a.failed())
		assert.LessOrEqual(w, a.took, time.Second)
	})
}

// An error that every member would return is returned at once.
func TestAnAcquireThatIsRefusedSaysSo(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
		w.f.Inject(isEnqueue.rule(etcdfake.Rule{Lose: true, Err: errForbidden}))
		a := w.acquiring(context.Background(), w.session(), Request{})
		assert.ErrorContains(w, a.failed(), "permission denied")
		assert.LessOrEqual(w, a.took, time.Second)
		w.f.LiftAll()
		w.clear()
	})
}

// The work of another acquisition of the session does not rest on a key that only waits.
func TestAWaitersOverwrittenKeyIsNotKeptByWork(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
		holder, s := w.acquire(w.session()), w.session()
		defer s.DeferRevocation()()
		waiter := w.waiting(s)
		for _, key := range w.keys() {
			if key != holder.Key() {
				w.f.Put(key, "another's", 0)
			}
		}
		require.ErrorIs(w, waiter.failed(), ErrKeyOverwritten)
		synctest.Wait()
		assert.Equal(w, []string{holder.Key()}, w.keys())
	})
}
