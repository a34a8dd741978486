package fencing_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
	"github.com/pawl-locks/pawl/test/pawltest"
)

// closeRelay is what cannot be fenced.
func closeRelay(ctx context.Context, s *pawl.Session, send func(ctx context.Context) error) error {
	return lock.New(s, "relay/3", lock.Options{}).Do(ctx, func(ctx context.Context, _ *lock.Held) error {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		return send(ctx)
	})
}

func TestTheNextHolderWaitsAfterOneThatDidNotReleaseAndOnlyThen(t *testing.T) {
	for name, c := range map[string]struct {
		end   func(cluster *pawltest.Cluster, c *pawl.Client, h *lock.Held) error
		delay time.Duration
	}{
		"released": {func(_ *pawltest.Cluster, _ *pawl.Client, h *lock.Held) error { return h.Release(context.Background()) }, 0},
		"lost": {func(cluster *pawltest.Cluster, c *pawl.Client, h *lock.Held) error {
			cluster.CutClient(c)
			<-h.Done()
			return nil
		}, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cluster := pawltest.New(t)
				session := func() (*pawl.Client, *pawl.Session) {
					var cfg pawl.Config
					cfg.Session = lease.Options{LockDelay: 5 * time.Second} // a command takes at most 5 s to arrive
					client := cluster.Client(t, cfg)
					s, err := client.Session(t.Context())
					require.NoError(t, err)
					return client, s
				}
				client, first := session()
				_, second := session()
				h, err := lock.New(first, "relay/3", lock.Options{}).Acquire(t.Context())
				require.NoError(t, err)
				require.NoError(t, c.end(cluster, client, h))
				ended := time.Now()
				var sent time.Time
				require.NoError(t, closeRelay(t.Context(), second, func(context.Context) error { sent = time.Now(); return nil }))
				assert.GreaterOrEqual(t, sent.Sub(ended), c.delay)
				assert.Less(t, sent.Sub(ended), 2*c.delay+time.Second)
				synctest.Wait()
			})
		})
	}
}
