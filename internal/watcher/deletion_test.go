package watcher

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// A message sent alone costs both ends several times as much as one of many. The next stream, whose
// creations may have the same IDs, gets no cancel of them.
func TestCancelsWaitForOneAnother(t *testing.T) {
	inBubble(t, benchConfig{}, func(t *testing.T, b *bench) {
		ignore := func(Update) {}
		_, _ = b.watch("stays", "", 1)
		c := b.accept()
		c.grant()
		gone := []*Watch{b.hub.Watch("of all", "", 1, ignore)}
		ids := []int64{c.grant().WatchId}
		for i := range 2 {
			gone = append(gone, b.hub.WatchDeletion(fmt.Sprint("k", i), 1, ignore))
			ids = append(ids, c.grant().WatchId)
		}
		synctest.Wait()
		gone[0].Cancel()
		c.nothing(sweepAfter / 2)
		gone[1].Cancel()
		c.nothing(sweepAfter/2 - 1)
		time.Sleep(time.Nanosecond)
		assert.Equal(t, ids[:2], []int64{c.canceled(), c.canceled()})
		c.nothing(2 * sweepAfter)

		gone[2].Cancel()
		synctest.Wait()
		c.end <- nil
		c = b.accept()
		assert.Equal(t, "stays", string(c.grant().Key))
		c.nothing(time.Second)
	})
}
