package etcdfake

import (
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

func TestRestoreTakesTheRevisionBack(t *testing.T) {
	inBubble(t, Options{ExpiryTick: -1}, func(t *testing.T, c *Cluster) {
		a := connect(t, c, 0)
		_, err := a.LeaseGrant(t.Context(), &pb.LeaseGrantRequest{ID: 7, TTL: 10})
		require.NoError(t, err)
		c.Put("k", "old", 7)
		s := c.Snapshot()
		for range 12 {
			c.Put("k", "new", 0)
		}
		c.Revoke(7)
		c.ChangeLeader(0)
		w := watchKey(t, a, "k", true)
		time.Sleep(9 * time.Second)
		c.Restore(s, RestoreOptions{})

		_, err = w.Recv()
		assert.Error(t, err, "streams end")
		synctest.Wait() // the client notices that its connection is gone
		r, err := a.Range(t.Context(), get("k"), grpc.WaitForReady(true))
		require.NoError(t, err)
		assert.Equal(t, int64(2), r.Header.Revision)
		assert.Equal(t, uint64(2), r.Header.RaftTerm)
		assert.Equal(t, "old", string(r.Kvs[0].Value))
		l, ok := c.Lease(7)
		require.True(t, ok)
		assert.Equal(t, []string{"k"}, l.Keys)
		assert.Equal(t, 10*time.Second, time.Until(l.Expires).Round(time.Second))
		c.Put("k", "after", 0)
		assert.Equal(t, int64(3), c.Revision())
		c.Restore(s, RestoreOptions{})
		assert.Equal(t, int64(2), c.Revision())
		assert.Len(t, c.History(), 14, "what was undone did happen")
	})
}

func TestRestoreWithCareKeepsRevisionsGoingUp(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, c *Cluster) {
		a := connect(t, c, 0)
		before, err := a.Range(t.Context(), get("k"))
		require.NoError(t, err)
		c.Put("k", "1", 0)
		s := c.Snapshot()
		c.Put("k", "2", 0)
		c.Restore(s, RestoreOptions{BumpRevision: 1000, MarkCompact: true, ClusterID: 5, Term: 9})
		synctest.Wait() // the client notices that its connection is gone
		r, err := a.Range(t.Context(), get("k"), grpc.WaitForReady(true))
		require.NoError(t, err)
		assert.Equal(t, int64(1002), r.Header.Revision)
		assert.Equal(t, uint64(9), r.Header.RaftTerm)
		assert.Equal(t, uint64(5), r.Header.ClusterId)
		assert.NotEqual(t, before.Header.ClusterId, r.Header.ClusterId)
		old := get("k")
		old.Revision = 3
		_, err = a.Range(t.Context(), old)
		assert.ErrorContains(t, err, "compacted")
	})
}
