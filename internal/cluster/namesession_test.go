package cluster_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-locks/pawl/internal/batch"
	"github.com/pawl-locks/pawl/internal/cleanup"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/session"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
	"github.com/pawl-locks/pawl/internal/watcher"
	"github.com/pawl-locks/pawl/lease"
)

// A session on an endpoint whose name has several addresses survives the end of the address in use, at
// any moment of its renewals, whatever the resolver does.
// rule: C5
func TestASessionSurvivesTheEndOfAnAddressOfItsName(t *testing.T) {
	for _, ttl := range []time.Duration{5 * time.Second, 15 * time.Second} {
		for name, fail := range cluster.NameFaults {
			for _, resolver := range []string{"well", "SERVFAIL", "empty", "silent", "4 s late"} {
				t.Run(fmt.Sprint(name, ", TTL ", ttl, ", resolver ", resolver), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						n := cluster.NewNamed(etcdfake.New(etcdfake.Options{Members: 3}))
						t.Cleanup(n.Close)
						c, err := cluster.Dial(t.Context(), n.Config())
						require.NoError(t, err)
						h := session.Host{Cluster: c, Batch: batch.New(c), Watches: watcher.New(c), Reader: session.NewReader(c), Cleanup: &cleanup.Group{}, Namespace: "ns"}
						t.Cleanup(func() {
							h.Cleanup.Close(2 * time.Second)
							h.Watches.Close()
							require.NoError(t, c.Close())
						})
						s, err := session.Grant(t.Context(), h, lease.Options{TTL: ttl})
						require.NoError(t, err)
						t.Cleanup(func() { _ = s.Close(context.Background()) })
						n.Resolve(resolver)
						rounds := testscale.Of(6, 30)
						for i := range rounds {
							fail(n, n.InUse(c))
							time.Sleep(2 * ttl)
							require.NoError(t, s.Err())
							n.Heal()
							time.Sleep(61*time.Second + ttl*time.Duration(i)/time.Duration(rounds))
						}
						synctest.Wait()
						require.NoError(t, s.Err())
					})
				})
			}
		}
	}
}
