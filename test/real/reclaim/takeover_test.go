//go:build linux

package reclaim_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/hooks"
	"github.com/pawl-locks/pawl/internal/reclaim"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/test/etcdtest"
)

// A file that its process could not remove before it gave its Handle away: etcd decides between who takes the
// session over and who proves the death.
// rule: RC3
func TestATakeoverInTheSameInstantWinsOrIsRefusedByEtcd(t *testing.T) {
	t.Parallel()
	endpoints := etcdtest.Start(t).Endpoints()
	dial := func() *pawl.Client {
		c, err := pawl.Dial(t.Context(), pawl.Config{Endpoints: endpoints})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, c.Close()) })
		return c
	}
	first, second, third := dial(), dial(), dial()
	host, err := hooks.HostOf(third)
	require.NoError(t, err)
	won := map[bool]int{}
	for range testscale.Of(40, 2000) {
		s, err := first.NewSession(t.Context(), lease.Options{TTL: ttl})
		require.NoError(t, err)
		engine := hooks.SessionOf(s)
		key, _ := engine.Key()
		d := open(t, newPath(t))
		of := reclaim.Left{Remains: engine.Remains(), Key: key}
		f, err := d.Publish(of)
		require.NoError(t, err)
		names, err := d.Names()
		require.NoError(t, err)
		unlocked(t, d.Path()+"/"+names[0])
		c, err := d.Claim(names[0])
		require.NoError(t, err)
		handle := s.Detach()

		var both sync.WaitGroup
		var next *pawl.Session
		var taken, settled error
		both.Go(func() { next, taken = second.NewSession(t.Context(), lease.Options{Resume: handle}) })
		both.Go(func() { _, settled = c.Settle(t.Context(), host, nil) })
		both.Wait()
		require.NoError(t, f.Remove(), "it is gone")
		won[taken == nil]++
		if taken == nil {
			require.ErrorIs(t, settled, lease.ErrTakenOver)
			require.NoError(t, next.Err())
			require.NoError(t, next.Close(t.Context()))
			continue
		}
		require.ErrorIs(t, taken, lease.ErrRevoked)
		require.NoError(t, settled)
	}
	t.Logf("%d taken over, %d reclaimed", won[true], won[false])
	assert.Equal(t, testscale.Of(40, 2000), won[true]+won[false])
}
