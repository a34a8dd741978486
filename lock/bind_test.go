package lock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
)

type bindKey struct{}

// A context of Bind ends with the caller's, with the hold, whatever ends it, and with its CancelFunc.
func TestABoundContextEndsWithTheCallersAndWithTheHold(t *testing.T) {
	why := errors.New("the request is over")
	for name, c := range map[string]struct {
		end  func(w *fixture, h *lock.Held, caller context.CancelCauseFunc, cancel context.CancelFunc)
		want error
	}{
		"the caller's context": {func(_ *fixture, _ *lock.Held, caller context.CancelCauseFunc, _ context.CancelFunc) { caller(why) }, why},
		"its CancelFunc":       {func(_ *fixture, _ *lock.Held, _ context.CancelCauseFunc, cancel context.CancelFunc) { cancel() }, context.Canceled},
		"a release": {func(w *fixture, h *lock.Held, _ context.CancelCauseFunc, _ context.CancelFunc) {
			assert.NoError(w, h.Release(w.Context()))
		}, lock.ErrReleased},
		"the loss of the key": {func(w *fixture, h *lock.Held, _ context.CancelCauseFunc, _ context.CancelFunc) { w.f.Delete(h.Key()) }, lock.ErrKeyDeleted},
		"the end of the session": {func(w *fixture, h *lock.Held, _ context.CancelCauseFunc, _ context.CancelFunc) {
			assert.NoError(w, h.Session().Close(w.Context()))
		}, lock.ErrLost},
		"the deadline of a lease": {func(w *fixture, _ *lock.Held, _ context.CancelCauseFunc, _ context.CancelFunc) {
			w.f.Cut()
			time.Sleep(time.Minute)
		}, lock.ErrLost},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *fixture) {
				h := w.acquire(w.session())
				caller, end := context.WithCancelCause(context.WithValue(context.Background(), bindKey{}, "v"))
				defer end(nil)
				ctx, cancel := h.Bind(caller)
				defer cancel()
				require.NoError(w, ctx.Err())
				assert.Equal(w, "v", ctx.Value(bindKey{}))
				_, token, ok := fencing.FromContext(ctx)
				assert.True(w, ok)
				assert.Equal(w, h.Token(), token)
				c.end(w, h, end, cancel)
				time.Sleep(time.Second) // a watch shows it
				synctest.Wait()
				assert.Error(w, ctx.Err())
				assert.ErrorIs(w, context.Cause(ctx), c.want)
				if h.Err() != nil {
					late, cancel := h.Bind(context.Background())
					defer cancel()
					assert.ErrorIs(w, context.Cause(late), c.want, "after the end")
				}
				w.f.Heal()
			})
		})
	}
	ctx, cancel := (*lock.Held)(nil).Bind(context.Background())
	defer cancel()
	assert.ErrorContains(t, context.Cause(ctx), "nil handle")
}

// A lease of hours, or of a day, is held for as long as it is wanted, is renewed four times in its TTL, and is lost by the
// process's own clock when no renewal is confirmed for five sixths of it.
func TestALeaseOfHoursIsHeldAndLostInItsTime(t *testing.T) {
	ttl := testscale.Of(3*time.Hour, 24*time.Hour)
	inBubble(t, func(w *fixture) {
		s, err := w.spare.NewSession(w.Context(), lease.Options{TTL: ttl})
		require.NoError(w, err)
		h := w.acquire(s)
		before := w.f.Counts()
		time.Sleep(2 * ttl)
		w.held(h)
		assert.LessOrEqual(w, w.f.Counts().Since(before).Received["LeaseKeepAlive"], 12)
		w.f.Cut()
		time.Sleep(ttl * 13 / 24)
		assert.NoError(w, h.Err())
		time.Sleep(ttl * 8 / 24)
		assert.ErrorIs(w, h.Err(), lock.ErrLost)
		w.f.Heal()
	})
}
