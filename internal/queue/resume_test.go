package queue

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/inside"
	"github.com/pawl-locks/pawl/internal/session"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/named"
	"github.com/pawl-locks/pawl/lease"
)

// successor is the session of a process that takes s over.
func (w *fixture) successor(s *session.Session) *session.Session {
	w.Helper()
	c, err := pawl.Dial(w.Context(), pawl.Config{Endpoints: w.f.Endpoints(), DialOptions: []grpc.DialOption{w.f.DialOption(), named.Requests()}})
	require.NoError(w, err)
	w.Cleanup(func() { _ = c.Close() })
	next, err := c.NewSession(w.Context(), lease.Options{Resume: s.Detach()})
	require.NoError(w, err)
	return inside.SessionOf(next)
}

// Hazard A13: whatever becomes of the query, a key is resumed, now or at the next
// call, and never said to be lost that is there.
func TestEveryFailureOfAResumptionCanBeRepeated(t *testing.T) {
	eachFaultInEachMode(t, isResume, func(w *fixture, fa fault) {
		s := w.session()
		c := w.acquire(s)
		next := w.successor(s)
		hit := w.f.Inject(isResume.rule(fa.rule))
		r, err := ResumeAll(w.Context(), next, c.AllKeys(), c.Token(), Limits{}, w.queue(), w.more()...)
		assert.NotZero(w, hit.Hits())
		w.f.LiftAll()
		if err != nil {
			assert.Nil(w, r)
			assert.NotErrorIs(w, err, ErrLost)
			r, err = ResumeAll(w.Context(), next, c.AllKeys(), c.Token(), Limits{}, w.queue(), w.more()...)
			require.NoError(w, err)
		}
		time.Sleep(4 * time.Second) // what is late arrives
		w.held(r)
		w.release(r)
		w.clear()
	})
}

// H2: that no answer came proves nothing.
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
			_, err := Resume(ctx, next, w.queue(), c.Key(), c.Token(), Limits{})
			return err
		})
		silence.Lift()
		r, err := ResumeAll(w.Context(), next, c.AllKeys(), c.Token(), Limits{}, w.queue(), w.more()...)
		require.NoError(w, err)
		w.release(r)
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
