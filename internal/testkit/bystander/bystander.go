// Package bystander is a client that works beside what a test does in bulk, and must not suffer from it.
package bystander

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/lock"
)

// pace is between two locks.
const pace = 20 * time.Millisecond

// Start starts a client that holds one lock, and locks further names, until stop is called. stop logs how long
// those took, and fails the test if the first lock was lost.
func Start(t testing.TB, cfg pawl.Config) (stop func()) {
	t.Helper()
	c, err := pawl.Dial(t.Context(), cfg)
	require.NoError(t, err)
	kept, err := lock.New(c, "kept by a bystander", lock.Options{}).Acquire(t.Context())
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var took []time.Duration
	var working sync.WaitGroup
	working.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			began := time.Now()
			h, err := lock.New(c, fmt.Sprint("a bystander's ", i), lock.Options{}).Acquire(t.Context())
			took = append(took, time.Since(began))
			if assert.NoError(t, err) {
				assert.NoError(t, h.Release(t.Context()))
			}
			time.Sleep(pace)
		}
	})
	return func() {
		cancel()
		working.Wait()
		slices.Sort(took)
		t.Logf("a bystander: %d locks, p50 %v, p99 %v, at most %v", len(took), took[len(took)/2], took[len(took)*99/100], took[len(took)-1])
		assert.NoError(t, kept.Err())
		assert.NoError(t, c.Close())
	}
}
