package queue

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/pawl-locks/pawl/internal/watcher"
)

// A call that is in progress while its watch is cancelled tells of a key that is
// not waited for any more.
func TestTheDeletionOfAnEarlierKeyBeforeIsNoReasonToAsk(t *testing.T) {
	earlier, now := place{"a", 1}, place{"b", 2}
	c := &Claim{before: now, woken: make(chan struct{}, 1)}
	gone := watcher.Update{Events: []watcher.Event{{Deleted: true}}}
	c.aheadChanged(earlier, gone)
	assert.False(t, c.passed)
	c.aheadChanged(now, gone)
	assert.True(t, c.passed)
}
