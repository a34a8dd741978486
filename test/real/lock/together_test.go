package lock_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
)

// Rule G4, as a real server counts it: many workers that acquire and release separate locks at the same
// time need a fraction of two requests each. A single worker needs two:
// TestAcquireAndReleaseAreTwoRequestsToARealServer. Others' requests would be counted, so it runs alone.
func TestManyWorkersLocksShareRequestsOnARealServer(t *testing.T) {
	endpoint := realServer(t)
	ctx := context.Background()
	for _, x := range []struct{ workers, pairs, most int }{
		{64, 20, 64 * 20},
		{512, 4, 512 * 4 / 2},
	} {
		t.Run(fmt.Sprint(x.workers), func(t *testing.T) {
			s, err := dial(t, endpoint).NewSession(ctx, lease.Options{TTL: 300 * time.Second}) // no renewal meanwhile
			require.NoError(t, err)
			turn := func(name string) {
				h, err := lock.New(s, name, lock.Options{}).Acquire(ctx)
				if assert.NoError(t, err) {
					assert.NoError(t, h.Err())
					assert.NoError(t, h.Release(ctx))
				}
			}
			turn("first")
			before := requests(t, endpoint)["Txn"]
			var all sync.WaitGroup
			for i := range x.workers {
				all.Go(func() {
					for range x.pairs {
						turn(fmt.Sprintf("together/%d-%d", x.workers, i))
					}
				})
			}
			all.Wait()
			sent := requests(t, endpoint)["Txn"] - before
			t.Logf("%d workers: %.2f requests for each acquisition and release", x.workers, float64(sent)/float64(x.workers*x.pairs))
			assert.LessOrEqual(t, sent, x.most)
			assert.Positive(t, sent, "what is counted are these requests")
		})
	}
}

// Rule G2, on a real server: few names and many workers of one client. One holds at any
// time, tokens of a name increase, and everybody gets a turn.
func TestManyWorkersOnFewNamesExcludeEachOtherOnARealServer(t *testing.T) {
	t.Parallel()
	endpoint := realServer(t)
	ctx, cancel := context.WithTimeout(context.Background(), testscale.Hang)
	defer cancel()
	s, err := dial(t, endpoint).NewSession(ctx, lease.Options{TTL: 300 * time.Second}) // no read finds what a watch missed
	require.NoError(t, err)
	type seat struct {
		mu   sync.Mutex // locked by each that acquired, while it holds
		last fencing.Token
	}
	seats := make([]seat, 16)
	var all sync.WaitGroup
	for i := range 64 {
		all.Go(func() {
			for n := range 10 {
				k := (i*7 + n*5) % len(seats)
				h, err := lock.New(s, fmt.Sprint("few/", k), lock.Options{}).Acquire(ctx)
				if !assert.NoError(t, err) {
					return
				}
				if assert.True(t, seats[k].mu.TryLock(), "two hold at the same time") {
					assert.Greater(t, h.Token(), seats[k].last)
					seats[k].last = h.Token()
					seats[k].mu.Unlock()
				}
				assert.NoError(t, h.Release(ctx))
			}
		})
	}
	all.Wait()
}
