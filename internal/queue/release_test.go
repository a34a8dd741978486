package queue

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

// R1: nil means that nobody else wrote to the key between its creation and its deletion.
// rule: R1
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
				c, err := Acquire(w.Context(), s, Request{Value: []byte("mine")}, w.queue())
				require.NoError(w, err)
				if name == "the answer is lost" { // and nothing can be known from the repeat
					w.f.Inject(isRelease.rule(etcdfake.Rule{Lose: true, Err: status.Error(codes.Unavailable, "gone"), Times: 1}))
				}
				put(w, c)
				before := w.f.Counts()
				err = c.Release(w.Context(), errGivenBack)
				w.oneCause(ErrKeyOverwritten, err)
				assert.ErrorIs(w, err, ErrLost)
				assert.ErrorIs(w, c.Err(), ErrKeyOverwritten)
				if name != "the answer is lost" {
					assert.Equal(w, 3, w.f.Counts().Since(before).Received["Txn"], "a read shows that the key is there, and the third deletes what the first refused to")
				}
				assert.Equal(w, err, c.Release(w.Context(), errGivenBack))
				w.clear()
			})
		})
	}
}

// R1: a write of ours of which nothing is known yet is no overwriting, and neither is a handoff.
func TestAReleaseKnowsItsOwnWritesAgain(t *testing.T) {
	t.Run("a value", func(t *testing.T) {
		rewriteUnknown(t, etcdfake.Rule{Late: 10 * time.Millisecond})
	})
	t.Run("a value whose answer was lost", func(t *testing.T) {
		rewriteUnknown(t, etcdfake.Rule{Hang: true})
	})
	t.Run("a handoff that was missed", func(t *testing.T) {
		inBubble(t, etcdfake.Options{Members: 3}, func(w *fixture) {
			holder, waiting := w.queueUp(3)
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
