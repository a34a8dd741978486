package shard_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/shard"
)

// A work or a Prepare that hangs holds up its own shard. With Options.Moves others wait for it for a TTL
// at most.
//
// rule: SH8
func TestWhatHangsTakesNoPlaceOfMovesForLongerThanATTL(t *testing.T) {
	for _, moves := range []int{0, 1, 2} {
		t.Run(fmt.Sprintf("work, Moves %d", moves), func(t *testing.T) {
			inBubble(t, 30, func(w *fixture) {
				freed := make(chan struct{})
				w.add(shard.Options{Moves: moves}, func(ctx context.Context, h *shard.Held) error {
					<-ctx.Done()
					if h.Shard() == 12 || h.Shard() == 20 {
						<-freed
					}
					return nil
				})
				w.pass(2 * time.Minute)
				w.add(shard.Options{Moves: moves}, waits)
				w.add(shard.Options{Moves: moves}, waits)
				w.pass(time.Minute)
				assert.Equal(w, []int{12, 9, 9}, w.loads())
				close(freed)
				w.pass(time.Minute)
				w.shared()
			})
		})
		t.Run(fmt.Sprintf("Prepare, Moves %d", moves), func(t *testing.T) {
			inBubble(t, 20, func(w *fixture) {
				w.add(shard.Options{Moves: moves}, waits)
				w.pass(time.Minute)
				w.add(shard.Options{Moves: moves, Prepare: func(ctx context.Context, i int) error {
					if i == 10 {
						<-ctx.Done()
					}
					return nil
				}}, waits)
				w.pass(time.Minute)
				assert.Equal(w, []int{11, 9}, w.loads())
			})
		})
	}
}
