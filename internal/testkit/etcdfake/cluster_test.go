package etcdfake

import (
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawl-locks/pawl/internal/testkit/assert"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake/etcd"
	"github.com/pawl-locks/pawl/internal/testkit/require"
)

func TestMembersShareOneState(t *testing.T) {
	inBubble(t, Options{Members: 3}, func(t *testing.T, c *Cluster) {
		a, b := connect(t, c, 0), connect(t, c, 2)
		p, err := a.Put(t.Context(), put("k", "v", 0))
		require.NoError(t, err)
		assert.Equal(t, int64(2), p.Header.Revision)
		g, err := b.Range(t.Context(), get("k"))
		require.NoError(t, err)
		require.Len(t, g.Kvs, 1)
		assert.Equal(t, "v", string(g.Kvs[0].Value))
		assert.Equal(t, p.Header.ClusterId, g.Header.ClusterId)
		assert.NotEqual(t, p.Header.MemberId, g.Header.MemberId)
	})
}

func TestLeaseEndsAtTheFirstTickAfterItsExpiry(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, c *Cluster) {
		a := connect(t, c, 0)
		time.Sleep(100 * time.Millisecond)
		start := time.Now()
		g, err := a.LeaseGrant(t.Context(), &pb.LeaseGrantRequest{ID: 7, TTL: 5})
		require.NoError(t, err)
		assert.Equal(t, int64(5), g.TTL)
		_, err = a.Put(t.Context(), put("k", "v", 7))
		require.NoError(t, err)

		time.Sleep(5400*time.Millisecond - time.Nanosecond)
		assert.NotNil(t, c.Get("k"))
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		assert.Nil(t, c.Get("k"))
		h := c.History()
		assert.Equal(t, 5400*time.Millisecond, h[len(h)-1].At.Sub(start))
		assert.Equal(t, etcd.ByExpiry, h[len(h)-1].Why)
	})
}

func TestRenewedLeaseLives(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, c *Cluster) {
		a := connect(t, c, 0)
		_, err := a.LeaseGrant(t.Context(), &pb.LeaseGrantRequest{ID: 7, TTL: 5})
		require.NoError(t, err)
		s, err := a.LeaseKeepAlive(t.Context())
		require.NoError(t, err)
		for range 1000 {
			time.Sleep(4 * time.Second)
			require.NoError(t, s.Send(&pb.LeaseKeepAliveRequest{ID: 7}))
			r, err := s.Recv()
			require.NoError(t, err)
			require.Equal(t, int64(5), r.TTL)
		}
		time.Sleep(6 * time.Second)
		require.NoError(t, s.Send(&pb.LeaseKeepAliveRequest{ID: 7}))
		r, err := s.Recv()
		require.NoError(t, err)
		assert.Zero(t, r.TTL)
		assert.Equal(t, 1001, c.Counts().Received["LeaseKeepAlive"])
	})
}

func TestWatchShowsThePastAndThePresent(t *testing.T) {
	inBubble(t, Options{Members: 2}, func(t *testing.T, c *Cluster) {
		c.Put("a", "1", 0)
		c.Put("a", "2", 0)
		s, err := connect(t, c, 1).Watch(t.Context())
		require.NoError(t, err)
		require.NoError(t, s.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{
			CreateRequest: &pb.WatchCreateRequest{Key: []byte("a"), StartRevision: 2, WatchId: 5}}}))
		r, err := s.Recv()
		require.NoError(t, err)
		assert.True(t, r.Created)
		assert.Equal(t, int64(5), r.WatchId)
		r, err = s.Recv()
		require.NoError(t, err)
		assert.Len(t, r.Events, 2)
		c.Delete("a")
		r, err = s.Recv()
		require.NoError(t, err)
		require.Len(t, r.Events, 1)
		assert.Equal(t, int64(4), r.Header.Revision)
	})
}

func TestWorksOutsideOfABubble(t *testing.T) {
	c := New(Options{})
	defer c.Close()
	a := connect(t, c, 0)
	defer a.conn.Close()
	_, err := a.Put(t.Context(), put("k", "v", 99))
	assert.Equal(t, codes.NotFound, status.Code(err))
}
