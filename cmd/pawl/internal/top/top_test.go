package top

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/pawl-locks/pawl/internal/inspect"
)

// changing is a follower with a change each millisecond.
type changing struct{ seen, snapshots int }

func (c *changing) Next(ctx context.Context) ([]inspect.Event, error) {
	time.Sleep(time.Millisecond)
	c.seen++
	return nil, ctx.Err()
}

func (c *changing) Snapshot() *inspect.Snapshot {
	c.snapshots++
	return &inspect.Snapshot{}
}

// A snapshot costs as much as there are keys, so one for each change would cost the square of them.
func TestSnapshotsAreTakenAtAPaceHoweverManyChangesThereAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		f, news := &changing{}, make(chan followed)
		go func() { // ends with ctx
			for range news {
			}
		}()
		receive(ctx, f, news)
		close(news)
		assert.LessOrEqual(t, f.snapshots, int(time.Second/pace)+1)
		assert.GreaterOrEqual(t, f.snapshots, int(time.Second/pace)/2)
	})
}
