package queue

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/lease"
)

// before calls f with the first request that is r, before that is applied.
func (w *fixture) before(r request, f func(t *pb.TxnRequest)) {
	var once sync.Once
	w.f.Inject(etcdfake.Rule{Method: "Txn", Match: func(q etcdfake.Request) bool {
		if t := r.of(q); t != nil {
			once.Do(func() { f(t) })
		}
		return false
	}})
}

// cancelKeyOf returns the cancel key that an enqueue compares.
func cancelKeyOf(t *pb.TxnRequest) string { return string(t.Compare[1].Key) }

func TestARefusedEnqueueSaysWhy(t *testing.T) {
	t.Run("its cancel key is there", func(t *testing.T) {
		inBubble(t, etcdfake.Options{}, func(w *fixture) {
			w.before(isEnqueue, func(t *pb.TxnRequest) { w.f.Put(cancelKeyOf(t), "theirs", 0) })
			s := w.session()
			_, err := Acquire(w.Context(), s, Request{}, w.queue())
			assert.ErrorContains(w, err, "somebody else wrote its cancel key")
			assert.Empty(w, w.keys())
			w.release(w.acquire(s))
			assert.NoError(w, s.Err())
		})
	})
	t.Run("nothing shows why", func(t *testing.T) {
		inBubble(t, etcdfake.Options{}, func(w *fixture) {
			var cancel string
			w.before(isEnqueue, func(t *pb.TxnRequest) {
				cancel = cancelKeyOf(t)
				w.f.Put(cancel, "theirs", 0)
			})
			w.before(isWhy, func(*pb.TxnRequest) { w.f.Delete(cancel) })
			s := w.session()
			_, err := Acquire(w.Context(), s, Request{}, w.queue())
			assert.ErrorContains(w, err, "nothing shows why")
			assert.Empty(w, w.keys())
			w.release(w.acquire(s))
			assert.Empty(w, cancels(w, s), "a refusal is an answer")
		})
	})
	t.Run("the session was taken over", func(t *testing.T) {
		inBubble(t, etcdfake.Options{}, func(w *fixture) {
			s := w.session()
			key, _ := s.Key()
			w.before(isEnqueue, func(*pb.TxnRequest) { w.f.Put(key, "successor", s.ID()) })
			_, err := Acquire(w.Context(), s, Request{}, w.queue())
			assert.ErrorIs(w, err, lease.ErrRevoked)
			assert.Equal(w, err, s.Err())
			assert.Empty(w, w.keys())
		})
	})
	t.Run("the session key is gone", func(t *testing.T) {
		inBubble(t, etcdfake.Options{}, func(w *fixture) {
			s := w.session()
			key, _ := s.Key()
			w.before(isEnqueue, func(*pb.TxnRequest) { w.f.Delete(key) })
			_, err := Acquire(w.Context(), s, Request{}, w.queue())
			assert.ErrorIs(w, err, lease.ErrRevoked)
			synctest.Wait()
			assert.Empty(w, w.keys())
		})
	})
	t.Run("a try came too late", func(t *testing.T) {
		inBubble(t, etcdfake.Options{}, func(w *fixture) {
			s := w.session()
			other := w.queue().Prefix + "7f3a-1"
			w.before(isEnqueue, func(*pb.TxnRequest) { w.f.Put(other, "theirs", 0) })
			_, err := Acquire(w.Context(), s, Request{Try: true}, w.queue())
			assert.ErrorIs(w, err, ErrBusy)
			assert.ErrorContains(w, err, other)
			assert.Equal(w, []string{other}, w.keys())

			w.before(isEnqueue, func(*pb.TxnRequest) { w.f.Put(other+"2", "theirs", 0) })
			w.before(isWhy, func(*pb.TxnRequest) { w.f.Delete(other + "2") })
			w.f.Delete(other)
			_, err = Acquire(w.Context(), s, Request{Try: true}, w.queue())
			assert.ErrorIs(w, err, ErrBusy)
			assert.ErrorContains(w, err, "until a moment ago")
			assert.Empty(w, w.keys())
			w.release(w.acquire(s))
		})
	})
}

// A6: if the reason cannot be read the acquisition fails, and its keys, which should not exist, are deleted.
// rule: A5
func TestEveryFailureOfTheReadAfterARefusalLeavesNothing(t *testing.T) {
	eachFaultInEachMode(t, isWhy, func(w *fixture, fa fault) {
		w.before(isEnqueue, func(t *pb.TxnRequest) { w.f.Put(cancelKeyOf(t), "theirs", 0) })
		hit := w.f.Inject(isWhy.rule(fa.rule))
		s := w.session()
		ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
		defer cancel()
		c, err := w.take(ctx, s, Request{})
		assert.NotZero(w, hit.Hits())
		if err == nil {
			w.held(c)
			w.release(c)
		}
		time.Sleep(time.Minute)
		assert.Empty(w, w.keys())
		require.NoError(w, s.Err())
		w.release(w.acquire(s))
	})
	t.Run("forbidden", func(t *testing.T) {
		inBubble(t, etcdfake.Options{}, func(w *fixture) {
			w.before(isEnqueue, func(t *pb.TxnRequest) { w.f.Put(cancelKeyOf(t), "theirs", 0) })
			f := w.f.Inject(isWhy.rule(etcdfake.Rule{Lose: true, Err: rpctypes.ErrGRPCPermissionDenied}))
			s := w.session()
			_, err := Acquire(w.Context(), s, Request{}, w.queue())
			assert.True(w, cluster.IsPermissionDenied(err), "%v", err)
			f.Lift()
			w.clear()
		})
	})
}
