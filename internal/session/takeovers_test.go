package session

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-locks/pawl/internal/detached"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/lease"
)

// handleFor is a Handle of some session.
func handleFor(id int64) lease.Handle {
	return handleOf(detached.State{Lease: id, Cluster: 1, TTL: 15 * time.Second, Key: "k", Create: 1, Mod: 1, Next: 1})
}

// N6: one call at a time tries a takeover. It is the same takeover until it is finished, and then a
// call that waited for it begins another.
// rule: N6
func TestATakeoverIsTheSameUntilItIsFinished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := handleFor(randomID())
		first, err := beginTakeover(t.Context(), h)
		require.NoError(t, err)
		ended, end := context.WithCancel(t.Context())
		end()
		_, err = beginTakeover(ended, h)
		require.ErrorIs(t, err, context.Canceled, "one call at a time tries it")

		first.end(h, false)
		again, err := beginTakeover(t.Context(), h)
		require.NoError(t, err)
		assert.Same(t, first, again)

		waits := make(chan *takeover)
		go func() { // ends with the test
			next, _ := beginTakeover(t.Context(), h)
			waits <- next
		}()
		synctest.Wait()
		again.end(h, true)
		next := <-waits
		assert.NotSame(t, first, next)
		next.end(h, true)
	})
}
