package gate

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
)

func TestOnlyAsManyAreInsideAsThereIsRoomFor(t *testing.T) {
	for _, room := range []int{1, 3} {
		synctest.Test(t, func(t *testing.T) {
			g := New(room)
			for range room {
				assert.True(t, g.Enter(t.Context()))
			}
			entered := false
			go func() { entered = g.Enter(t.Context()) }() // when there is room
			synctest.Wait()
			assert.False(t, entered)
			g.Leave()
			synctest.Wait()
			assert.True(t, entered)
		})
	}
}

func TestAWaitEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New(1)
		assert.True(t, g.Enter(t.Context()))
		ctx, cancel := context.WithCancel(t.Context())
		waits := true
		go func() { assert.False(t, g.Enter(ctx)); waits = false }() // until cancel
		synctest.Wait()
		assert.True(t, waits)
		cancel()
		synctest.Wait()
		assert.False(t, waits)
		g.Leave()
		assert.True(t, g.Enter(ctx), "who gave up is not inside")
	})
}

func TestAFreeGateIsEnteredEvenIfTheContextHasEnded(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 {
		assert.True(t, New(1).Enter(ended))
	}
}
