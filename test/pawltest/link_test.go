package pawltest

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
)

// Only one client is cut off. It loses its lock, by its clock, before another client, which is not
// cut off, can acquire it.
func TestAClientThatIsCutOffLosesItsLockAndAnotherAcquiresIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(t)
		one, other := c.Client(t, pawl.Config{}), c.Client(t, pawl.Config{})
		_, h := acquire(t, one, "a")
		time.Sleep(time.Minute)
		require.NoError(t, h.Err())
		c.CutClient(one)
		c.CutClient(one) // again
		c.CutClient(nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		assert.ErrorIs(t, h.Confirm(ctx), context.DeadlineExceeded)
		next, err := lock.New(other, "a", lock.Options{}).Acquire(t.Context())
		require.NoError(t, err)
		assert.ErrorIs(t, h.Err(), lease.ErrExpired)
		c.HealClient(one)
		require.NoError(t, next.Release(t.Context()))
		again, err := lock.New(one, "a", lock.Options{}).Acquire(t.Context())
		require.NoError(t, err, "it is of use again")
		require.NoError(t, again.Release(t.Context()))
	})
}

func TestAClientThatIsCutOffForAMomentKeepsItsLock(t *testing.T) {
	everywhere(t, func(t *testing.T) {
		c := New(t)
		client := c.Client(t, pawl.Config{})
		_, h := acquire(t, client, "a")
		c.CutClient(client)
		c.HealClient(client)
		require.NoError(t, h.Confirm(t.Context()))
		require.NoError(t, h.Release(t.Context()))
	})
}

// Whatever is cut at a test's end does not hold that up.
func TestAClientThatStaysCutOffIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		endsSoon(t)
		c := New(t)
		client := c.Client(t, pawl.Config{})
		acquire(t, client, "a")
		c.CutClient(client)
	})
}
