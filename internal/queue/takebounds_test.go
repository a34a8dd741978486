package queue

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

// Hazard A7: a call ends with its context while a take is silent, and while it waits for a slot.
func TestACallEndsWithItsContextWhileItTakesASlot(t *testing.T) {
	for _, try := range []bool{false, true} {
		for _, applied := range []bool{false, true} {
			inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
				w.limit = 1
				s := w.session()
				w.f.Inject(isTake.rule(etcdfake.Rule{Lose: !applied, Hang: true}))
				w.f.Inject(isQuery.rule(etcdfake.Rule{Lose: true, Hang: true}))
				ctx, cancel := context.WithTimeout(w.Context(), 700*time.Millisecond)
				defer cancel()
				a := w.acquiring(ctx, s, Request{Try: try})
				require.ErrorIs(w, a.failed(), context.DeadlineExceeded)
				assert.LessOrEqual(w, a.took, 800*time.Millisecond)
				time.Sleep(2 * time.Second)
				w.f.LiftAll()
				w.clear()
				assert.Empty(w, cancels(w, s))
			})
		}
	}
	inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
		p := w.permit(1).won()
		ctx, cancel := context.WithTimeout(w.Context(), 700*time.Millisecond)
		defer cancel()
		a := w.acquiring(ctx, w.session(), Request{})
		require.ErrorIs(w, a.failed(), context.DeadlineExceeded)
		assert.LessOrEqual(w, a.took, 800*time.Millisecond)
		w.release(p)
		w.clear()
	})
}

// SM1: a take that arrives after its turnstile key was deleted and another took the slot puts
// nothing, and its acquisition fails because of that.
func TestATakeThatLostItsTurnTakesNothing(t *testing.T) {
	for _, limit := range []int{1, 2} {
		inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
			late := w.f.Inject(isTake.rule(etcdfake.Rule{Late: 500 * time.Millisecond, Err: rpctypes.ErrGRPCTimeout, Times: 1}))
			queries := w.f.Inject(isQuery.rule(etcdfake.Rule{Delay: time.Second, Times: 1}))
			a := w.permit(limit)
			w.limit = limit
			require.Len(w, w.f.Keys("//pawl/sem/name/q"), 1)
			w.f.Delete(w.f.Keys("//pawl/sem/name/q")[0])
			b := w.permit(limit).won()
			w.oneCause(ErrKeyDeleted, a.failed())
			assert.NotZero(w, late.Hits()+queries.Hits())
			time.Sleep(3 * time.Second)
			synctest.Wait()
			w.held(b)
			assert.Equal(w, []string{b.Key()}, w.keys())
			w.release(b)
			w.clear()
		})
	}
}

// A6: a waiter whose turnstile key is overwritten while its take hangs leaves neither key.
func TestATurnstileKeyOverwrittenDuringATakeLeavesNothing(t *testing.T) {
	for _, applied := range []bool{false, true} {
		inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
			w.limit = 1
			s := w.session()
			holder := w.permit(1).won()
			a := w.permitOn(s, 1) // its key is watched
			w.f.Inject(isTake.rule(etcdfake.Rule{Delay: 300 * time.Millisecond, Lose: !applied, Hang: applied, Times: 1}))
			q := w.f.Keys("//pawl/sem/name/q")[0]
			w.release(holder)
			time.Sleep(100 * time.Millisecond)
			w.f.Put(q, "x", 0)
			w.oneCause(ErrKeyOverwritten, a.failed())
			time.Sleep(3 * time.Second)
			synctest.Wait()
			assert.Empty(w, w.keys())
			assert.Empty(w, cancels(w, s))
			w.f.LiftAll()
			w.clear()
		})
	}
}
