package session

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/internal/detached"
	"github.com/pawl-locks/pawl/lease"
)

// handleFor is a Handle of some session.
func handleFor(id int64) lease.Handle {
	return handleOf(detached.State{Lease: id, Cluster: 1, TTL: 15 * time.Second, Key: "k", Create: 1, Mod: 1, Next: 1})
}

// N6: what other takeovers begin and end changes nothing for one that is under way, or that may be tried again: it is
// the same one, for as long as its lease may live.
func TestATakeoverIsRememberedWhateverOthersBegin(t *testing.T) {
	const ttl = 15 * time.Second
	synctest.Test(t, func(t *testing.T) {
		var ts takeoverTable
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		other := func(id int64) {
			x, err := ts.begin(ctx, handleFor(id), ttl)
			require.NoError(t, err)
			ts.end(handleFor(id), x, true)
		}
		tried, err := ts.begin(ctx, handleFor(1), ttl)
		require.NoError(t, err)
		other(2)
		over, end := context.WithCancel(ctx)
		end()
		_, err = ts.begin(over, handleFor(1), ttl)
		require.ErrorIs(t, err, context.Canceled, "one call at a time tries it")

		ts.end(handleFor(1), tried, false)
		time.Sleep(ttl)
		other(3)
		again, err := ts.begin(ctx, handleFor(1), ttl)
		require.NoError(t, err)
		assert.Same(t, tried, again, "its lease may live")
		ts.end(handleFor(1), again, false)
		time.Sleep(ttl + lateGrant + 1)
		other(4)
		assert.Empty(t, ts.begun, "its lease has expired")
	})
}
