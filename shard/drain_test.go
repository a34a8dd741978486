package shard_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/internal/inspect"
	"github.com/pawl-locks/pawl/shard"
)

// Also when what the planner wishes it then is what it was wished before: that wish is not written
// again.
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
