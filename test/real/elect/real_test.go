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
	"github.com/pawl-locks/pawl/internal/testkit/leaderview"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
	"github.com/pawl-locks/pawl/lease"
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

// The same life on a real server as on the one in memory.
func TestATermsLifeOnARealServer(t *testing.T) {
	t.Parallel()
	s, c := realClient(t)
	ctx, cancel := context.WithTimeout(context.Background(), testscale.Hang)
	defer cancel()
	ask, stop := context.WithCancel(ctx)
	v := leaderview.Begin(ask, c, "team/a", 0)
	defer func() { stop(); <-v.Ended }()
	saw := func(want string) {
		t.Helper()
		require.Eventually(t, func() bool { return v.Said() == want }, testscale.Hang, 5*time.Millisecond, "want %q", want)
	}
	saw("-")
	one, err := c.NewSession(ctx, lease.Options{})
	require.NoError(t, err)
	first, err := elect.New(one, "team/a", elect.Options{}).Campaign(ctx, []byte("a"))
	require.NoError(t, err)
	saw("- a")
	two, err := c.NewSession(ctx, lease.Options{})
	require.NoError(t, err)
	won := make(chan *elect.Term, 1)
	go func() { // ends with its turn
		tm, err := elect.New(two, "team/a", elect.Options{}).Campaign(ctx, []byte("b"))
		assert.NoError(t, err)
		won <- tm
	}()
	kvs := pb.NewKVClient(s.Conn(t))
	require.Eventually(t, func() bool {
		r, err := kvs.Range(ctx, &pb.RangeRequest{Key: []byte("/team%2Fa/"), RangeEnd: []byte("/team%2Fa0"), CountOnly: true})
		return err == nil && r.Count == 2
	}, testscale.Hang, 5*time.Millisecond)
	require.NoError(t, first.Proclaim(ctx, []byte("A")))
	saw("- a A")
	r, err := kvs.Range(ctx, &pb.RangeRequest{Key: []byte("e")})
	require.NoError(t, err)
	_, err = kvs.Compact(ctx, &pb.CompactionRequest{Revision: r.Header.Revision})
	require.NoError(t, err)

	handle := one.Detach()
	assert.ErrorIs(t, first.Err(), lease.ErrClosed)
	again, err := c.NewSession(ctx, lease.Options{Resume: handle})
	require.NoError(t, err)
	resumed, err := elect.New(again, "team/a", elect.Options{}).Resume(ctx, first.Key(), first.Token())
	require.NoError(t, err)
	require.NoError(t, resumed.Proclaim(ctx, []byte("A again")))
	saw("- a A A again")
	assert.Empty(t, won)
	require.NoError(t, resumed.Confirm(ctx))
	require.NoError(t, resumed.Resign(ctx))
	second := <-won
	require.NoError(t, second.Err())
	assert.Greater(t, second.Token(), first.Token())
	saw("- a A A again b")
	require.NoError(t, two.Close(ctx))
	assert.ErrorIs(t, second.Err(), lease.ErrClosed)
	saw("- a A A again b -")
	_, err = elect.LeaderOf(ctx, c, "team/a", elect.Options{})
	assert.ErrorIs(t, err, elect.ErrNoLeader)
}
