package elect_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/elect"
	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
	"github.com/pawl-locks/pawl/test/etcdtest"
)

// realClient is a client of a real etcd, and an operator's way to it.
func realClient(t *testing.T) (*etcdtest.Server, *pawl.Client) {
	t.Helper()
	s := etcdtest.StartWith(t, etcdtest.Options{Heartbeat: 100 * time.Millisecond})
	c, err := pawl.Dial(context.Background(), pawl.Config{Endpoints: s.Endpoints()})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.Close()) })
	return s, c
}

// Hazard E9, on a real server: twenty kills of the lease, and leader again each time. That a
// revocation is not taken for a deletion is shown where the clock is fake: within 50 ms, the time
// that the cause is given, a real machine may learn the one and not yet the other.
func TestTwentyKillsOfTheLeaseOnARealServer(t *testing.T) {
	t.Parallel()
	s, c := realClient(t)
	ls, kvs := pb.NewLeaseClient(s.Conn(t)), pb.NewKVClient(s.Conn(t))
	ctx, cancel := context.WithTimeout(context.Background(), testscale.Hang)
	defer cancel()
	var log []elect.Event
	var last fencing.Token
	kills := 0
	err := elect.Run(ctx, c, "e", quick(&log), func(work context.Context, tm *elect.Term) error {
		assert.Greater(t, tm.Token(), last)
		last = tm.Token()
		if kills == 20 {
			return nil
		}
		kills++
		r, err := kvs.Range(ctx, &pb.RangeRequest{Key: []byte(tm.Key())})
		require.NoError(t, err)
		require.Len(t, r.Kvs, 1)
		_, err = ls.LeaseRevoke(ctx, &pb.LeaseRevokeRequest{ID: r.Kvs[0].Lease})
		require.NoError(t, err)
		<-work.Done()
		assert.Contains(t, []string{"revoked", "deleted"}, causeOf(context.Cause(work)))
		return nil
	})
	require.NoError(t, err)
	assert.Equal(t, 20, kills)
	assert.Len(t, log, 2*21)
}
