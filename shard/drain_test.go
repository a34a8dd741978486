package shard_test

import (
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawl-locks/pawl/internal/inspect"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/shard"
)

// This holds even if its wish is the same as before, and so is not written again.
func TestAWorkerThatIsDrainedNoLongerGetsItsShareAgain(t *testing.T) {
	inBubble(t, 6, func(w *fixture) {
		w.began(2, shard.Options{})
		for _, x := range w.all {
			lease := x.lease()
			require.NoError(w, inspect.Drain(w.Context(), x.c, "jobs", lease, true))
			w.pass(3 * time.Second)
			assert.Empty(w, x.owned())
			require.NoError(w, inspect.Drain(w.Context(), x.c, "jobs", lease, false))
			w.pass(3 * time.Second)
			w.shared()
		}
	})
}

// A copy of the request with which the worker joined comes late, and says that it is not drained.
func TestALateCopyOfAJoinChangesNothing(t *testing.T) {
	inBubble(t, 6, func(w *fixture) {
		w.f.Inject(etcdfake.Rule{Op: "join the shards' workers", Again: 10 * time.Second, Times: 2})
		w.began(2, shard.Options{})
		require.NoError(w, inspect.Drain(w.Context(), w.all[0].c, "jobs", w.all[0].lease(), true))
		w.pass(4 * time.Second)
		assert.Equal(w, []int{0, 6}, w.loads())
		rev := w.f.Revision()
		w.pass(20 * time.Second)
		assert.Equal(w, []int{0, 6}, w.loads())
		assert.Empty(w, w.writes(rev))
	})
}

func TestAJoinWhoseAnswerIsLostHasJoined(t *testing.T) {
	inBubble(t, 6, func(w *fixture) {
		lost := w.f.Inject(etcdfake.Rule{Op: "join the shards' workers", Err: status.Error(codes.Unavailable, "etcdserver: request timed out"), Times: 2})
		w.began(1, shard.Options{})
		assert.Equal(w, 2, lost.Hits())
		assert.Empty(w, w.all[0].kinds(shard.Retrying))
		w.start(shard.Options{})
		w.pass(4 * time.Second)
		w.shared() // the worker follows its wish
		assert.Len(w, w.all[0].owned(), 3)
	})
}
