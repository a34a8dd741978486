package queue

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
)

// R1: nil means that nobody else wrote to the key until it was deleted, from the
// first moment on.
func TestAReleaseOfAKeyThatSomebodyOverwroteSaysLost(t *testing.T) {
	for name, put := range map[string]func(w *fixture, c *Acquisition){
		"another's lease":    func(w *fixture, c *Acquisition) { w.f.Put(c.Key(), "another's", 0) },
		"the own lease":      func(w *fixture, c *Acquisition) { w.f.Put(c.Key(), "another's", c.s.ID()) },
		"the same value":     func(w *fixture, c *Acquisition) { w.f.Put(c.Key(), "mine", c.s.ID()) },
		"the answer is lost": func(w *fixture, c *Acquisition) { w.f.Put(c.Key(), "another's", 0) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
				s := w.session()
				c, err := Acquire(w.Context(), s, w.queue(), Request{Value: []byte("mine")})
				require.NoError(w, err)
				if name == "the answer is lost" { // and of the repeat nothing can be known
					w.f.Inject(isRelease.rule(etcdfake.Rule{Lose: true, Err: status.Error(codes.Unavailable, "gone"), Times: 1}))
				}
				put(w, c)
				before := w.f.Counts()
				err = c.Release(w.Context(), errGivenBack)
				w.oneCause(ErrKeyOverwritten, err)
				assert.ErrorIs(w, err, ErrLost)
				assert.ErrorIs(w, c.Err(), ErrKeyOverwritten)
				if name != "the answer is lost" {
					assert.Equal(w, 2, w.f.Counts().Since(before).Received["Txn"], "the second deletes what the first refused to")
				}
				assert.Equal(w, err, c.Release(w.Context(), errGivenBack))
				w.clear()
			})
		})
	}
}

// R1: a write of ours of which nothing is known yet, and a handoff, are no
// overwriting.
func TestAReleaseKnowsItsOwnWritesAgain(t *testing.T) {
	t.Run("a value", func(t *testing.T) {
		rewriteUnknown(t, etcdfake.Rule{Late: 10 * time.Millisecond})
	})
	t.Run("a value whose answer was lost", func(t *testing.T) {
		rewriteUnknown(t, etcdfake.Rule{Hang: true})
	})
	t.Run("a handoff that was missed", func(t *testing.T) {
		inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
			holder, waiting := w.inTurn(3)
			w.release(holder)
			w.swallowing(isPut)
			w.release(waiting[0].won())
			w.release(waiting[1].won())
			w.release(waiting[2].won())
			w.clear()
		})
	})
}

func rewriteUnknown(t *testing.T, rule etcdfake.Rule) {
	inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
		c := w.acquire(w.session())
		w.f.Inject(isRewrite.rule(rule))
		ctx, cancel := context.WithTimeout(w.Context(), 5*time.Millisecond)
		defer cancel()
		require.Error(w, c.Rewrite(ctx, []byte("new")))
		time.Sleep(20 * time.Millisecond) // before it is watched
		w.release(c)
		w.clear()
	})
}

// Delay: a holder that released, and then closed its session, was clean: its
// session was there when its key was deleted, though it is gone at the query.
func TestAHolderThatReleasedAndClosedItsSessionWasClean(t *testing.T) {
	const delay = 30 * time.Second
	for name, end := range map[string]struct {
		end   func(w *fixture, c *Acquisition)
		delay time.Duration
	}{
		"released, then closed": {func(w *fixture, c *Acquisition) {
			w.release(c)
			require.NoError(w, c.s.Close(w.Context()))
		}, 0},
		"released, then compacted": {func(w *fixture, c *Acquisition) {
			w.release(c)
			w.f.Put("other", "", 0)
			w.f.Compact(w.f.Revision())
		}, 0},
		"released, then closed and compacted": {func(w *fixture, c *Acquisition) {
			w.release(c)
			require.NoError(w, c.s.Close(w.Context()))
			w.f.Put("other", "", 0)
			w.f.Compact(w.f.Revision())
		}, delay}, // nobody knows any more
		"closed":  {func(w *fixture, c *Acquisition) { require.NoError(w, c.s.Close(w.Context())) }, delay},
		"revoked": {func(w *fixture, c *Acquisition) { w.f.Revoke(c.s.ID()) }, delay},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
				c := w.acquire(w.session())
				waiter := w.session()
				a := w.acquiring(w.Context(), waiter, Request{Delay: delay})
				// The query comes when all this has happened.
				w.f.Inject(isQuery.rule(etcdfake.Rule{Delay: time.Second, Times: 1}))
				began := time.Now()
				end.end(w, c)
				won := a.won()
				took := time.Since(began)
				assert.GreaterOrEqual(w, took, end.delay)
				assert.LessOrEqual(w, took, end.delay+3*time.Second)
				w.release(won)
				w.clear()
			})
		})
	}
}
