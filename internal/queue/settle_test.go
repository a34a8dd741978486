package queue

import (
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/lease"
)

// loseAnswer makes the next enqueue be applied, and its answer be lost.
func (w *fixture) loseAnswer() {
	w.f.Inject(isEnqueue.rule(etcdfake.Rule{Err: rpctypes.ErrGRPCTimeout, Times: 1}))
}

// A2, A5: settling an enqueue shows that its key exists, and a query that no key conflicts.
func TestAnEnqueueThatIsSettledIsHeldAfterAQuery(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(w *fixture) {
		s := w.session()
		time.Sleep(time.Second) // until the session key is watched
		w.loseAnswer()
		before := w.f.Counts()
		c := w.acquire(s)
		w.held(c)
		w.release(c)
		assert.Equal(w, 4, w.f.Counts().Since(before).Received["Txn"], "the enqueue, what settles it, a query, and the release")
		w.clear()
	})
}

// A2: if another came before it, a query decides, as ever.
func TestAnEnqueueThatIsSettledBehindAnotherWaits(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(w *fixture) {
		holder := w.acquire(w.session())
		w.loseAnswer()
		waiter := w.waiting(w.session())
		w.release(holder)
		w.release(waiter.won())
		w.clear()
	})
}

// A2, N6: an enqueue that is settled after its session was taken over is not held.
func TestAnEnqueueIsNotHeldIfItsSessionWasTakenOverBeforeItIsSettled(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(w *fixture) {
		w.f.Inject(etcdfake.Rule{Opening: true, Method: "Watch", Hang: true}) // only the transactions can show it
		s := w.session()
		key, _ := s.Key()
		w.loseAnswer()
		w.before(isSettle, func(*pb.TxnRequest) { w.f.Put(key, "successor", s.ID()) })
		_, err := Acquire(w.Context(), s, Request{}, w.queue())
		assert.ErrorIs(w, err, lease.ErrRevoked)
		assert.Equal(w, err, s.Err())
	})
}

// A4: a key that was written to before its enqueue is settled is watched at once, and the loss
// is known at once.
func TestAKeyOverwrittenBeforeItsEnqueueIsSettledIsLostAtOnce(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(w *fixture) {
		s := w.session()
		w.loseAnswer()
		w.before(isSettle, func(q *pb.TxnRequest) {
			w.f.Put(string(q.Success[1].GetRequestRange().GetKey()), "another's", s.ID())
		})
		c, err := Acquire(w.Context(), s, Request{}, w.queue())
		if err == nil {
			synctest.Wait()
			err = c.Err()
		}
		assert.ErrorIs(w, err, ErrKeyOverwritten)
	})
}
