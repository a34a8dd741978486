package queue

import (
	"context"
	"slices"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/etcdapi"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/internal/txn"
)

const tiedKey = "name/7fffffff-1"

// tying puts another key of the queue in the request of each enqueue, as a program would that
// breaks rule G2.
func tying(ctx context.Context, method string, req, answer any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if t, ok := req.(*pb.TxnRequest); ok && slices.Contains(cluster.Ops(ctx), string(isEnqueue)) {
		t = etcdapi.Clone(t)
		t.Success = append([]*pb.RequestOp{t.Success[0], txn.Put(tiedKey, nil, 0)}, t.Success[1:]...)
		req = t
	}
	return invoke(ctx, method, req, answer, conn, opts...)
}

// Rule G3: another key of the queue with the create revision of the acquisition's key fails the
// acquisition, wherever it is read.
// rule: G3
func TestATieFailsTheAcquisitionLoudly(t *testing.T) {
	const loud = "two of one queue in one request"
	t.Run("seen by the enqueue", func(t *testing.T) {
		inBubble(t, etcdfake.Options{}, func(w *fixture) {
			_, err := Acquire(w.Context(), w.through(tying), Request{}, w.queue())
			assert.ErrorContains(w, err, loud)
			w.f.Delete(tiedKey)
			w.clear()
		})
	})
	t.Run("seen by the query after an enqueue was settled", func(t *testing.T) {
		inBubble(t, etcdfake.Options{}, func(w *fixture) {
			w.f.Inject(isEnqueue.rule(etcdfake.Rule{Err: rpctypes.ErrGRPCTimeout, Times: 1}))
			_, err := Acquire(w.Context(), w.through(tying), Request{}, w.queue())
			assert.ErrorContains(w, err, loud)
			w.f.Delete(tiedKey)
			w.clear()
		})
	})
	// show adds to an answer a key with the create revision of the acquisition's key.
	show := func(w *fixture, r request, create func() int64) {
		rule := r.rule(etcdfake.Rule{Edit: func(_ etcdfake.Request, m etcdapi.Message) {
			read := m.(*pb.TxnResponse).Responses[0].GetResponseRange()
			read.Kvs = append([]*mvccpb.KeyValue{{Key: []byte(tiedKey), CreateRevision: create(), ModRevision: 1}}, read.Kvs...)[:2]
		}})
		w.f.Inject(rule)
	}
	t.Run("seen by a waiter's query", func(t *testing.T) {
		inBubble(t, etcdfake.Options{}, func(w *fixture) {
			holder := w.acquire(w.session())
			waiter := w.waiting(w.session())
			var own int64
			for _, k := range w.keys() {
				own = max(own, w.f.Get(k).CreateRevision)
			}
			show(w, isQuery, func() int64 { return own })
			w.release(holder)
			assert.ErrorContains(w, waiter.failed(), loud)
			w.f.LiftAll()
			w.clear()
		})
	})
	t.Run("seen by a process that resumes", func(t *testing.T) {
		inBubble(t, etcdfake.Options{}, func(w *fixture) {
			s := w.session()
			c := w.acquire(s)
			show(w, isResume, func() int64 { return int64(c.Token()) })
			_, err := Resume(w.Context(), s, []string{c.Key()}, c.Token(), Limits{}, w.queue())
			assert.ErrorContains(w, err, loud)
		})
	})
}

// K1: the tokens of two names may be equal, because one request may create both keys.
// rule: K1
func TestTwoNamesMayHaveOneTokenAndEachHasItsHolder(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(w *fixture) {
		w.others = newOthers(w, 1, fault{})
		c := w.acquire(w.session())
		var other fencing.Token
		for _, k := range w.f.Keys(othersName) {
			other = fencing.Token(w.f.Get(k).CreateRevision)
		}
		require.Equal(w, c.Token(), other)
		w.release(c)
		assert.True(w, w.others.end())
	})
}
