package queue

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/hooks"
	"github.com/pawl-locks/pawl/internal/session"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/opnames"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/lease"
)

// successor returns the session of a process that takes s over.
func (w *fixture) successor(s *session.Session) *session.Session {
	w.Helper()
	return w.successorWith(s, pawl.Config{})
}

func (w *fixture) successorWith(s *session.Session, cfg pawl.Config) *session.Session {
	w.Helper()
	cfg.Endpoints = w.f.Endpoints()
	cfg.DialOptions = append(cfg.DialOptions, w.f.DialOption(), opnames.DialOption())
	c, err := pawl.Dial(w.Context(), cfg)
	require.NoError(w, err)
	w.Cleanup(func() { _ = c.Close() })
	next, err := c.NewSession(w.Context(), lease.Options{Resume: s.Detach()})
	require.NoError(w, err)
	return hooks.SessionOf(next)
}

// Hazard A13: whatever happens to the query, a key is resumed by this call or the next, and a key
// that exists is never reported as lost.
func TestEveryFailureOfAResumptionCanBeRepeated(t *testing.T) {
	eachFaultInEachMode(t, isResume, func(w *fixture, fa fault) {
		s := w.session()
		c := w.acquire(s)
		next := w.successor(s)
		hit := w.f.Inject(isResume.rule(fa.rule))
		r, err := Resume(w.Context(), next, c.AllKeys(), c.Token(), Limits{}, w.queues()...)
		assert.NotZero(w, hit.Hits())
		w.f.LiftAll()
		if err != nil {
			assert.Nil(w, r)
			assert.NotErrorIs(w, err, ErrLost)
			r, err = Resume(w.Context(), next, c.AllKeys(), c.Token(), Limits{}, w.queues()...)
			require.NoError(w, err)
		}
		time.Sleep(4 * time.Second) // what is late arrives
		w.held(r)
		w.release(r)
		w.clear()
	})
}

// H2: a missing answer proves nothing.
func TestEveryFailureOfAConfirmLeavesWhatIsHeld(t *testing.T) {
	eachFault(t, isConfirm, func(w *fixture, fa fault) {
		c := w.acquire(w.session())
		hit := w.f.Inject(isConfirm.rule(fa.rule))
		err := c.Confirm(w.Context())
		assert.NotZero(w, hit.Hits())
		assert.NotErrorIs(w, err, ErrLost)
		w.held(c)
		w.f.LiftAll()
		require.NoError(w, c.Confirm(w.Context()))
		w.release(c)
		w.clear()
	})
}

// Hazard A7: both end with their contexts, and can be called again.
func TestConfirmAndResumeEndWithTheirContexts(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
		s := w.session()
		c := w.acquire(s)
		silence := w.f.Inject(isConfirm.rule(etcdfake.Rule{Hang: true}))
		w.inTime(func(ctx context.Context) error { return c.Confirm(ctx) })
		w.held(c)
		silence.Lift()
		next := w.successor(s)
		silence = w.f.Inject(isResume.rule(etcdfake.Rule{Hang: true}))
		w.inTime(func(ctx context.Context) error {
			_, err := Resume(ctx, next, []string{c.Key()}, c.Token(), Limits{}, w.queue())
			return err
		})
		silence.Lift()
		r, err := Resume(w.Context(), next, c.AllKeys(), c.Token(), Limits{}, w.queues()...)
		require.NoError(w, err)
		w.release(r)
		w.clear()
	})
}

// H2: a Confirm of several keys checks each, and finds a loss that no watch and no renewal has
// shown.
// rule: H2
func TestAConfirmFindsEachKeyThatIsLost(t *testing.T) {
	for name, lose := range map[string]func(w *fixture, key string){
		"deleted":     func(w *fixture, key string) { w.f.Delete(key) },
		"overwritten": func(w *fixture, key string) { w.f.Put(key, "another's", 0) },
	} {
		cause := map[string]error{"deleted": ErrKeyDeleted, "overwritten": ErrKeyOverwritten}[name]
		for i := range 3 {
			inBubble(t, etcdfake.Options{}, func(w *fixture) {
				held := w.takes(w.Context(), w.session(), Request{}, "a", "b", "+c").won()
				w.f.Inject(etcdfake.Rule{Method: "Watch", Lose: true, Hang: true})
				lose(w, held.AllKeys()[i])
				require.NoError(w, held.Err(), "nobody has told it")
				err := held.Confirm(w.Context())
				w.oneCause(cause, err)
				require.ErrorIs(w, err, ErrLost)
				w.f.LiftAll()
				_ = held.Release(w.Context(), errGivenBack)
			})
		}
	}
}

// K4: a key whose token is not above the floor is not resumed either. A client whose floor is lower
// resumes it.
// rule: K4
func TestAKeyWhoseTokenIsAtTheFloorIsNotResumed(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(w *fixture) {
		s := w.session()
		c := w.acquire(s)
		strict := w.successorWith(s, pawl.Config{TokenFloor: c.Token()})
		before := w.f.Counts()
		r, err := Resume(w.Context(), strict, []string{c.Key()}, c.Token(), Limits{}, w.queue())
		assert.Nil(w, r)
		require.ErrorIs(w, err, pawl.ErrTokenFloor)
		assert.Empty(w, w.f.Counts().Since(before).Received["Txn"], "it is refused before anything is sent")
		next := w.successorWith(strict, pawl.Config{TokenFloor: c.Token() - 1})
		r, err = Resume(w.Context(), next, []string{c.Key()}, c.Token(), Limits{}, w.queue())
		require.NoError(w, err)
		w.held(r)
		w.release(r)
	})
}

// A7: a context that ends in the instant of success is an error, and the key can be resumed later.
func TestAResumptionWhoseContextEndsInTheInstantOfSuccessIsNone(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(w *fixture) {
		s := w.session()
		c := w.acquire(s)
		ctx, cancel := context.WithCancel(w.Context())
		defer cancel()
		armed := false
		late := func(rctx context.Context, method string, req, answer any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			err := invoke(rctx, method, req, answer, conn, opts...)
			if armed {
				armed = false
				cancel() // the answer is here
			}
			return err
		}
		next := w.successorWith(s, pawl.Config{DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(late)}})
		armed = true
		r, err := Resume(ctx, next, []string{c.Key()}, c.Token(), Limits{}, w.queue())
		require.False(w, armed)
		assert.Nil(w, r)
		require.ErrorIs(w, err, context.Canceled)
		r, err = Resume(w.Context(), next, []string{c.Key()}, c.Token(), Limits{}, w.queue())
		require.NoError(w, err)
		w.held(r)
		w.release(r)
	})
}

// N6: a key that was put again on another's lease is not resumed, although it has its create
// revision and its value.
func TestAKeyOnAnothersLeaseIsNotResumed(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(w *fixture) {
		s := w.session()
		c := w.acquire(s)
		next := w.successor(s)
		w.f.Put(c.Key(), string(w.f.Get(c.Key()).Value), w.session().ID())
		r, err := Resume(w.Context(), next, []string{c.Key()}, c.Token(), Limits{}, w.queue())
		assert.Nil(w, r)
		w.oneCause(ErrKeyOverwritten, err)
		require.ErrorIs(w, err, ErrLost)
		w.clear()
	})
}

// RW2: a set that is resumed knows each of its modes from its keys.
func TestAResumedSetHasTheModesOfItsKeys(t *testing.T) {
	inBubble(t, etcdfake.Options{}, func(w *fixture) {
		s := w.session()
		held := w.takes(w.Context(), s, Request{}, "+a", "b", "+c").won()
		qs := w.queuesOf("a", "b", "c") // as a caller names them who does not know the modes
		r, err := Resume(w.Context(), w.successor(s), held.AllKeys(), held.Token(), Limits{}, qs...)
		require.NoError(w, err)
		for i, shared := range []bool{true, false, true} {
			name := r.queues[i].Name
			ctx := r.ContextFor(w.Context(), name)
			_, _, isShared := fencing.FromSharedContext(ctx)
			_, _, isExclusive := fencing.FromContext(ctx)
			assert.Equal(w, []bool{shared, !shared}, []bool{isShared, isExclusive}, name)
		}
		require.NoError(w, r.Release(w.Context(), errGivenBack))
		w.clear()
	})
}

// inTime asserts that call ends with its context.
func (w *fixture) inTime(call func(ctx context.Context) error) {
	w.Helper()
	for _, d := range []time.Duration{time.Nanosecond, 700 * time.Millisecond, 4 * time.Second} {
		ctx, cancel := context.WithTimeout(w.Context(), d)
		began := time.Now()
		err := call(ctx)
		assert.LessOrEqual(w, time.Since(began), d+100*time.Millisecond)
		assert.ErrorIs(w, err, context.DeadlineExceeded)
		assert.NotErrorIs(w, err, ErrLost)
		cancel()
	}
}
