package lock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/kv"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
)

// On a real server: a hold ends when it has lasted for MaxHold, its key goes, and the
// next one in the queue has the lock.
func TestMaxHoldOnARealServer(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	endpoint := realServer(t)
	one, other := dial(t, endpoint), dial(t, endpoint)
	h, err := lock.New(one, "max", lock.Options{MaxHold: 300 * time.Millisecond}).Acquire(ctx)
	require.NoError(t, err)
	next, err := lock.New(other, "max", lock.Options{}).Acquire(ctx)
	require.NoError(t, err)
	assert.ErrorIs(t, h.Err(), lock.ErrLost)
	assert.ErrorIs(t, h.Err(), lock.ErrMaxHold)
	assert.Greater(t, next.Token(), h.Token())
	_, err = one.KV().Txn(ctx, kv.Txn{Guards: []kv.Guard{h.Guard()}, Then: []kv.Op{kv.Put("max's", nil)}})
	assert.ErrorIs(t, err, kv.ErrFenced)
	assert.NoError(t, h.Session().Err(), "the session goes on")
	require.NoError(t, next.Release(ctx))
}

// On a real server: what was released before AtLeast stays taken until then, and a Close
// of its client ends that.
func TestAtLeastOnARealServer(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	endpoint := realServer(t)
	one, other := dial(t, endpoint), dial(t, endpoint)
	h, err := lock.New(one, "least", lock.Options{AtLeast: 100 * time.Millisecond}).Acquire(ctx)
	require.NoError(t, err)
	require.NoError(t, h.Release(ctx))
	assert.ErrorIs(t, h.Err(), lock.ErrReleased)
	next, err := lock.New(other, "least", lock.Options{}).Acquire(ctx) // without any more to be done
	require.NoError(t, err)
	require.NoError(t, next.Release(ctx))

	h, err = lock.New(one, "least", lock.Options{AtLeast: time.Hour}).Acquire(ctx)
	require.NoError(t, err)
	require.NoError(t, h.Release(ctx))
	_, err = lock.New(other, "least", lock.Options{}).TryAcquire(ctx)
	require.ErrorIs(t, err, lock.ErrBusy)
	require.NoError(t, one.Close())
	next, err = lock.New(other, "least", lock.Options{}).TryAcquire(ctx)
	require.NoError(t, err)
	require.NoError(t, next.Release(ctx))
}

// On a real server: a Mutex made with a client is of use again after its session was
// lost, on another one.
func TestAMutexOfAClientOutlivesItsSessionOnARealServer(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	c := dial(t, realServer(t))
	m := lock.New(c, "outlives", lock.Options{})
	first, err := m.Acquire(ctx)
	require.NoError(t, err)
	require.NoError(t, first.Session().Close(ctx))
	assert.ErrorIs(t, first.Err(), lease.ErrClosed)
	second, err := m.Acquire(ctx)
	require.NoError(t, err)
	assert.NotEqual(t, first.Session().ID(), second.Session().ID())
	assert.Greater(t, second.Token(), first.Token())
	third := make(chan *lock.Held, 1)
	go func() { // ends with its Acquire
		h, err := m.Acquire(ctx)
		assert.NoError(t, err)
		third <- h
	}()
	require.NoError(t, second.Release(ctx))
	h := <-third
	assert.Equal(t, second.Session().ID(), h.Session().ID(), "while it lasts, one session")
	require.NoError(t, h.Release(ctx))
}
