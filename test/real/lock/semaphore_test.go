package lock_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/pawl-locks/pawl/lock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// On a real server, with many workers and few slots, no two hold one slot, and no slot's token goes back.
func TestManyWorkersShareFewSlotsOnARealServer(t *testing.T) {
	t.Parallel()
	const limit, workers, rounds = 3, 12, 10
	endpoint := realServer(t)
	var holders atomic.Int32
	var inSlot, tokens [limit]atomic.Int64
	var working sync.WaitGroup
	for range workers {
		m := lock.NewSemaphore(dial(t, endpoint), "slots", limit, lock.Options{})
		working.Go(func() {
			for range rounds {
				err := m.Do(context.Background(), func(ctx context.Context, p *lock.Held) error {
					assert.LessOrEqual(t, holders.Add(1), int32(limit))
					assert.Equal(t, int64(1), inSlot[p.Slot()].Add(1), "two hold one slot")
					assert.Less(t, tokens[p.Slot()].Swap(int64(p.Token())), int64(p.Token()))
					inSlot[p.Slot()].Add(-1)
					holders.Add(-1)
					return p.Err()
				})
				if !assert.NoError(t, err) {
					return
				}
			}
		})
	}
	working.Wait()
	q, err := lock.NewSemaphore(dial(t, endpoint), "slots", limit, lock.Options{}).Queue(context.Background())
	require.NoError(t, err)
	assert.Empty(t, q)
}
