package fencing_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
	"github.com/pawl-locks/pawl/test/pawltest"
)

// closeRelay is what cannot be fenced.
func closeRelay(ctx context.Context, s *pawl.Session, send func(ctx context.Context) error) error {
	relay := lock.New(s, "relay/3", lock.Options{Delay: 5 * time.Second}) // a command takes at most 5 s to arrive
	return relay.Do(ctx, func(ctx context.Context, _ *lock.Held) error {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		return send(ctx)
	})
}

func TestDelayedHolderWaitsAfterOneThatDidNotReleaseAndOnlyThen(t *testing.T) {
	for name, c := range map[string]struct {
		end   func(cluster *pawltest.Cluster, s *pawl.Session, h *lock.Held) error
		delay time.Duration
	}{
		"released": {func(_ *pawltest.Cluster, _ *pawl.Session, h *lock.Held) error { return h.Release(context.Background()) }, 0},
		"lost": {func(cluster *pawltest.Cluster, s *pawl.Session, _ *lock.Held) error {
			cluster.Revoke(s.ID())
			return nil
		}, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cluster := pawltest.New(t)
				session := func() *pawl.Session {
					s, err := cluster.Client(t, pawl.Config{}).NewSession(t.Context(), lease.Options{})
					require.NoError(t, err)
					return s
				}
				first, second := session(), session()
				h, err := lock.New(first, "relay/3", lock.Options{}).Acquire(t.Context())
				require.NoError(t, err)
				sent := make(chan time.Time, 1)
				go func() { // ends when it has sent
					assert.NoError(t, closeRelay(t.Context(), second, func(context.Context) error { sent <- time.Now(); return nil }))
				}()
				synctest.Wait() // it is in the queue
				ended := time.Now()
				require.NoError(t, c.end(cluster, first, h))
				assert.Equal(t, c.delay, (<-sent).Sub(ended))
				synctest.Wait()
			})
		})
	}
}
