package cleanup

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

func TestCloseWaitsForJobsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Group
		done := false
		require.True(t, g.Go("slow", func(context.Context) {
			time.Sleep(time.Second)
			done = true
		}))
		start := time.Now()
		assert.Empty(t, g.Close(2*time.Second))
		assert.True(t, done)
		assert.Equal(t, time.Second, time.Since(start))
	})
}

func TestCloseCancelsAndNamesWhatIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Group
		g.Go("stuck", func(ctx context.Context) { <-ctx.Done() })
		g.Go("quick", func(context.Context) {})
		start := time.Now()
		assert.Equal(t, []string{"stuck"}, g.Close(2*time.Second))
		assert.Equal(t, 2*time.Second, time.Since(start))
	})
}

func TestNothingBeginsAfterClose(t *testing.T) {
	var g Group
	assert.Empty(t, g.Close(0))
	assert.False(t, g.Go("late", func(context.Context) { t.Error("ran") }))
	assert.Empty(t, g.Close(0), "closing again does nothing")
}
