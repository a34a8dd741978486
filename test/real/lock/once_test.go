package lock_test

import (
	"context"
	"crypto/rand"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/elect"
	"github.com/pawl-locks/pawl/lock"
)

var firing = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// job is the work of Once, counted.
func job(n *atomic.Int64, err error) func(context.Context, *lock.Held) error {
	return func(context.Context, *lock.Held) error { n.Add(1); return err }
}

// On a real server: a job runs once a firing, and a queue shows its holder.
func TestOnceAndQueueOnARealServer(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	endpoint := realServer(t)
	one, other := dial(t, endpoint), dial(t, endpoint)
	name := "cron/" + rand.Text() // of this run: a firing is remembered
	var n atomic.Int64
	for _, at := range []int{0, 1} {
		done := make(chan bool)
		for _, c := range []*lock.Mutex{lock.New(one, name, lock.Options{}), lock.New(other, name, lock.Options{})} {
			go func() { // ends with its run
				ran, err := c.Once(ctx, firing.AddDate(0, 0, at), job(&n, nil))
				assert.NoError(t, err)
				done <- ran
			}()
		}
		first, second := <-done, <-done
		assert.NotEqual(t, first, second, "one of the two runs")
	}
	assert.EqualValues(t, 2, n.Load())

	h, err := lock.New(one, "once", lock.Options{}).Acquire(ctx)
	require.NoError(t, err)
	q, err := lock.New(other, "once", lock.Options{}).Queue(ctx)
	require.NoError(t, err)
	require.Len(t, q, 1)
	assert.Equal(t, []any{h.Key(), h.Token(), h.Session().ID()}, []any{q[0].Key, q[0].Token, q[0].Lease})
	_, err = elect.New(other, "once", elect.Options{}).TryCampaign(ctx, nil)
	assert.ErrorIs(t, err, elect.ErrBusy, "a lock and an election of one name are one queue")
	require.NoError(t, h.Release(ctx))
	term, err := elect.New(other, "once", elect.Options{}).TryCampaign(ctx, []byte("me"))
	require.NoError(t, err)
	l, err := elect.LeaderOf(ctx, one, "once", elect.Options{})
	require.NoError(t, err)
	assert.Equal(t, []int64{int64(term.Token()), term.Session().ID()}, []int64{l.CreateRevision, l.Lease})
	require.NoError(t, term.Resign(ctx))
}
