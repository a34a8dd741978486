package queue

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/hooks"
	"github.com/pawl-locks/pawl/internal/session"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/lease"
)

// slowly has the answers of an operation take d, and returns how many were received since the last call.
func (w *fixture) slowly(op string, d time.Duration) (received func() int) {
	var mu sync.Mutex
	n := 0
	w.f.Inject(etcdfake.Rule{Op: op, HoldAnswer: d, Match: func(q etcdfake.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		n += len(q.Parts(op))
		return true
	}})
	return func() int {
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		was := n
		n = 0
		return was
	}
}

// alone has each write of s be sent in a request of its own.
func (w *fixture) alone(s *session.Session) *session.Session {
	s.Host().Batch.Hold(0, 0, nil)
	return s
}

// crowd begins n acquisitions of a name each, on s, and returns a function that waits for them.
func (w *fixture) crowd(s *session.Session, names string, n int) (wait func() []*Acquisition) {
	all := make([]*Acquisition, n)
	var wg sync.WaitGroup
	for i := range n {
		q, err := New("", fmt.Sprint(names, i), false)
		require.NoError(w, err)
		wg.Go(func() {
			var err error
			if all[i], err = Acquire(w.Context(), s, Request{}, q); err != nil && s.Err() == nil {
				assert.NoError(w, err)
			}
		})
	}
	return func() []*Acquisition {
		wg.Wait()
		return all
	}
}

// What an enqueue costs everybody grows with the keys of its lease, so the fewer are under way the more
// keys there are, in one session and with several.
// rule: G12
func TestEnqueuesUnderWayAreBoundedByTheKeysOfTheirLeases(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(w *fixture) {
		s := w.alone(w.session())
		received := w.slowly("enqueue", time.Second)
		wait := w.crowd(s, "first", 1_000)
		assert.Equal(w, 200, received(), "a lease with few keys counts as one with 500")
		wait()
		received()
		wait = w.crowd(s, "second", 300)
		assert.Equal(w, 95, received(), "1,000 keys for the first of them, 1,094 for the last")
		wait()
	})
}

// A key of each of several names is put.
// rule: G12
func TestAnEnqueueOfSeveralNamesCountsForEach(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(w *fixture) {
		s := w.alone(w.session())
		received := w.slowly("enqueue", time.Second)
		var wg sync.WaitGroup
		for i := range 100 {
			var queues []Queue
			for j := range 4 {
				q, err := New("", fmt.Sprint("set", i, "-", j), false)
				require.NoError(w, err)
				queues = append(queues, q)
			}
			wg.Go(func() {
				_, err := Acquire(w.Context(), s, labelled(Request{}, 4), queues...)
				assert.NoError(w, err)
			})
		}
		assert.Equal(w, 50, received())
		wg.Wait()
	})
}

// Whoever lets thousands queue can still give back what is held.
// rule: G12
func TestAReleaseDoesNotWaitForEnqueues(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(w *fixture) {
		s := w.alone(w.session())
		c := w.acquire(s)
		w.slowly("enqueue", time.Second)
		wait := w.crowd(s, "other", 400)
		synctest.Wait()
		began := time.Now()
		w.release(c)
		assert.Zero(w, time.Since(began))
		wait()
	})
}

// All that is held is released at once.
// rule: G12
func TestReleasesUnderWayAreBounded(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(w *fixture) {
		s := w.alone(w.session())
		all := w.crowd(s, "name", 400)()
		received := w.slowly("release", time.Second)
		var wg sync.WaitGroup
		for _, c := range all {
			wg.Go(func() { assert.NoError(w, c.Release(w.Context(), errGivenBack)) })
		}
		assert.Equal(w, 200, received())
		wg.Wait()
	})
}

// One session of a client has thousands that want to queue, and another has one.
// rule: G12
func TestASessionWithManyEnqueuesDelaysAnotherByOneOfThem(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(w *fixture) {
		c := w.Dial(pawl.Config{})
		sessions := make([]*session.Session, 2)
		for i := range sessions {
			s, err := c.NewSession(w.Context(), lease.Options{})
			require.NoError(w, err)
			sessions[i] = w.alone(hooks.SessionOf(s))
		}
		w.slowly("enqueue", 100*time.Millisecond)
		wait := w.crowd(sessions[0], "many", 500)
		synctest.Wait()
		began := time.Now()
		w.crowd(sessions[1], "one", 1)()
		assert.Equal(w, 200*time.Millisecond, time.Since(began))
		wait()
	})
}

// What has to wait for its turn was not sent, and says so when its context ends.
// rule: G12
func TestWhatWaitsForItsTurnEndsWithItsContextOrItsSession(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(w *fixture) {
		s := w.alone(w.session())
		received := w.slowly("enqueue", 2*time.Second)
		wait := w.crowd(s, "name", 200)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(w.Context(), time.Second)
		defer cancel()
		a := w.acquiring(ctx, s, Request{})
		b := w.waiting(s)
		<-a.done
		assert.Equal(w, time.Second, a.took)
		require.ErrorIs(w, a.err, context.DeadlineExceeded)
		require.NotErrorIs(w, a.err, cluster.ErrUnknown)
		assert.Equal(w, 200, received())
		s.CloseInBackground()
		<-b.done
		require.ErrorIs(w, b.err, lease.ErrClosed)
		assert.Zero(w, received())
		wait()
	})
}

// The answers of all enqueues are lost, and each is settled by another request.
// rule: G12
func TestWhatSettlesLostEnqueuesWaitsForItsTurn(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(w *fixture) {
		s := w.alone(w.session())
		lost := w.f.Inject(etcdfake.Rule{Op: "enqueue", Err: rpctypes.ErrGRPCTimeout})
		received := w.slowly("settle enqueue", time.Second)
		wait := w.crowd(s, "name", 400)
		assert.Equal(w, 200, received())
		lost.Lift()
		wait()
	})
}
