package shard_test

import (
	"testing"
	"time"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/shard"
)

func TestShardsAreSharedOut(t *testing.T) {
	inBubble(t, 64, func(w *fixture) {
		for range 8 {
			w.start(shard.Options{})
		}
		w.pass(3 * time.Second)
		w.shared()
		assert.Equal(w, 64, w.total(), "none twice")
		rev := w.f.Revision()
		w.pass(5 * time.Minute)
		w.shared()
		assert.Empty(w, w.writes(rev), "at rest nothing is written")
		w.start(shard.Options{})
		w.pass(3 * time.Second)
		w.shared()
		assert.Equal(w, 64+7, w.total(), "as few moves as can be")
	})
}
