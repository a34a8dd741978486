package queue

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/hooks"
	"github.com/pawl-locks/pawl/internal/session"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/opnames"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

// through returns a session whose client has this interceptor.
func (w *fixture) through(in grpc.UnaryClientInterceptor) *session.Session {
	w.Helper()
	c, err := pawl.Dial(w.Context(), pawl.Config{
		Endpoints: w.f.Endpoints(), DialOptions: []grpc.DialOption{w.f.DialOption(), opnames.DialOption(), grpc.WithUnaryInterceptor(in)},
	})
	require.NoError(w, err)
	w.Cleanup(func() { _ = c.Close() })
	s, err := c.Session(w.Context())
	require.NoError(w, err)
	return hooks.SessionOf(s)
}

// resend sends each request a second time when the first answer is lost, as middleware that retries does.
func resend(ctx context.Context, method string, req, answer any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	err := invoke(ctx, method, req, answer, conn, opts...)
	if status.Code(err) == codes.Unavailable {
		err = invoke(ctx, method, req, answer, conn, opts...)
	}
	return err
}

// twice sends each transaction twice.
func twice(ctx context.Context, method string, req, answer any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if _, ok := req.(*pb.TxnRequest); ok {
		_ = invoke(ctx, method, req, new(pb.TxnResponse), conn, opts...)
	}
	return invoke(ctx, method, req, answer, conn, opts...)
}

// writes matches transactions that put, or with del delete.
func writes(del bool) func(etcdfake.Request) bool {
	return func(r etcdfake.Request) bool {
		for _, op := range r.Message.(*pb.TxnRequest).Success {
			if op.GetRequestPut() != nil && !del || op.GetRequestDeleteRange() != nil && del {
				return true
			}
		}
		return false
	}
}

var errConnectionLost = status.Error(codes.Unavailable, "connection lost")

// Rule A5 if an interceptor sends the copies: a late copy that arrives after the other was answered
// puts no key that nobody knows of.
// rule: C1
func TestALateCopyThatAnInterceptorSentLeavesNothingInTheQueue(t *testing.T) {
	for name, try := range map[string]bool{"acquired": false, "tried": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, etcdfake.Options{}, func(w *fixture) {
				s := w.through(resend)
				w.f.Inject(etcdfake.Rule{Method: "Txn", Match: writes(false), Times: 1, Late: 3 * time.Second, Err: errConnectionLost})
				c, err := Acquire(w.Context(), s, Request{Try: try}, w.queue())
				require.NoError(w, err)
				w.held(c)
				w.release(c)
				time.Sleep(4 * time.Second)
				w.clear()
			})
		})
	}
}

func TestALateCopyOfATryThatAnInterceptorSentLeavesNothingInTheQueue(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(w *fixture) {
		s, other := w.through(resend), w.session()
		w.f.Inject(etcdfake.Rule{Method: "Txn", Match: writes(false), Times: 1, Late: 3 * time.Second, Err: errConnectionLost})
		w.f.Inject(etcdfake.Rule{Method: "Txn", Match: writes(false), Times: 1, Delay: time.Second})
		try := w.acquiring(w.Context(), s, Request{Try: true})
		held := w.acquire(other) // between the two copies
		require.ErrorIs(w, try.failed(), ErrBusy)
		w.release(held)
		time.Sleep(4 * time.Second)
		w.clear()
	})
}

// Rule R1: the copy that an interceptor sent after a lost answer does not find the key, and still
// the lock was held.
func TestAReleaseThatAnInterceptorSentTwiceSaysNil(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(w *fixture) {
		c := w.acquire(w.through(resend))
		w.f.Inject(etcdfake.Rule{Method: "Txn", Match: writes(true), Times: 1, Err: errConnectionLost})
		assert.NoError(w, c.Release(w.Context(), errGivenBack))
		w.clear()
	})
}

// An interceptor that has everything executed twice changes nothing: waiters are handed the lock in
// order, values are written, releases return nil, and nothing is left.
func TestAnInterceptorThatSendsEverythingTwiceChangesNothing(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(w *fixture) {
		a, b := w.through(twice), w.through(twice)
		lock := func(s *session.Session) Request { return Request{Value: s.LabelOf("", false, "", nil), Handoffs: true} }
		first, err := Acquire(w.Context(), a, lock(a), w.queue())
		require.NoError(w, err)
		var waiters []*acquireCall
		for range 4 {
			waiters = append(waiters, w.acquiring(w.Context(), b, lock(b)), w.acquiring(w.Context(), a, lock(a)))
		}
		time.Sleep(time.Second)
		w.release(first)
		for _, waiter := range waiters {
			w.release(waiter.won())
		}
		c, err := Acquire(w.Context(), a, Request{Try: true}, w.queue())
		require.NoError(w, err)
		require.NoError(w, c.Rewrite(w.Context(), []byte("one")))
		require.NoError(w, c.Rewrite(w.Context(), []byte("two")))
		assert.Equal(w, "two", string(w.f.Get(c.Key()).Value))
		w.release(c)
		w.clear()
	})
}
