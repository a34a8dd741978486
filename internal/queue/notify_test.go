package queue

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/observe"
)

// A loss may be recorded before the win that it follows. It is reported with a duration of zero,
// not less.
func TestWhatWasLostInTheInstantOfItsWinWasHeldForNoTime(t *testing.T) {
	inBubble(t, etcdfake.Options{Members: 1}, func(w *fixture) {
		var mu sync.Mutex
		var lost []observe.LockLost
		s := w.sessionWith(pawl.Config{Observer: observe.Func(func(_ context.Context, ev observe.Event) {
			if ev, ok := ev.(observe.LockLost); ok {
				mu.Lock()
				defer mu.Unlock()
				lost = append(lost, ev)
			}
		})})
		c := w.acquire(s)
		c.notice.ended = c.notice.won.Add(-time.Millisecond)
		w.f.Delete(c.Key())
		time.Sleep(time.Second)
		mu.Lock()
		defer mu.Unlock()
		require.Len(w, lost, 1)
		assert.Zero(w, lost[0].Held)
	})
}
