package lock_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/kv"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
)

// permits is a semaphore of two slots.
func permits(s pawl.Sessions) *lock.Semaphore {
	return lock.NewSemaphore(s, "permits", 2, lock.Options{})
}

// TestRolePermits is not a test: it is a process that takes both slots of a semaphore, hands its
// session over, and ends.
func TestRolePermits(t *testing.T) {
	if os.Getenv(role) != "permits" {
		t.Skip("the role of a child process")
	}
	ctx := context.Background()
	s, err := dial(t, os.Getenv(endpointOf)).NewSession(ctx, lease.Options{TTL: 20 * time.Second})
	require.NoError(t, err)
	for range 2 {
		p, err := permits(s).Acquire(ctx)
		require.NoError(t, err)
		fmt.Printf("permit %d %s %d\n", p.Slot(), p.Key(), p.Token())
	}
	handOver(t, s)
}

// N6, SM4: permits outlive the process that acquired them: its successor has them in their
// slots, with their tokens, and the next waiter waits until one of them is released.
// rule: N6
func TestPermitsAreResumedByAnotherProcessOnARealServer(t *testing.T) {
	t.Parallel()
	endpoint := realServer(t)
	ctx := context.Background()
	first := child(t, "permits", endpointOf+"="+endpoint)
	var slots [2]int
	var keys [2]string
	var tokens [2]fencing.Token
	for i := range slots {
		_, err := fmt.Sscan(first.said("permit"), &slots[i], &keys[i], &tokens[i])
		require.NoError(t, err)
	}
	require.Equal(t, [2]int{0, 1}, slots)
	handle := first.handedOver(t)

	c := dial(t, endpoint)
	other, err := dial(t, endpoint).Session(ctx)
	require.NoError(t, err)
	_, err = permits(other).TryAcquire(ctx)
	require.ErrorIs(t, err, lock.ErrBusy)
	won := make(chan *lock.Held)
	go func() { // ends when a slot is free
		p, err := permits(other).Acquire(ctx)
		assert.NoError(t, err)
		won <- p
	}()

	next, err := c.NewSession(ctx, lease.Options{Resume: handle})
	require.NoError(t, err)
	m := permits(next)
	_, err = m.Resume(ctx, keys[0], tokens[0]-1)
	require.ErrorIs(t, err, lock.ErrLost, "never this one's token")
	_, err = lock.New(next, "permits", lock.Options{}).Resume(ctx, keys[0], tokens[0])
	require.ErrorContains(t, err, "is not one of lease")
	require.NotErrorIs(t, err, lock.ErrLost, "it stays as it is")
	var resumed [2]*lock.Held
	for i := range resumed {
		resumed[i], err = m.Resume(ctx, keys[i], tokens[i])
		require.NoError(t, err)
		require.NoError(t, resumed[i].Err())
		require.NoError(t, resumed[i].Confirm(ctx))
		assert.Equal(t, []any{i, keys[i], tokens[i]}, []any{resumed[i].Slot(), resumed[i].Key(), resumed[i].Token()})
	}
	_, err = m.Resume(ctx, keys[0], tokens[0])
	require.Error(t, err, "one key, one Held")
	_, err = c.KV().Txn(ctx, kv.Txn{Guards: []kv.Guard{resumed[1].Guard()}, Then: []kv.Op{kv.Put("permits'", []byte("x"))}})
	require.NoError(t, err)

	require.NoError(t, resumed[1].Release(ctx))
	p := <-won
	require.NotNil(t, p)
	assert.Equal(t, 1, p.Slot())
	assert.Greater(t, p.Token(), tokens[1])
	_, err = c.KV().Txn(ctx, kv.Txn{Guards: []kv.Guard{resumed[1].Guard()}, Then: []kv.Op{kv.Put("permits'", []byte("y"))}})
	require.ErrorIs(t, err, kv.ErrFenced)
	require.NoError(t, resumed[0].Err(), "the other slot is another matter")
	require.NoError(t, p.Release(ctx))
	require.NoError(t, resumed[0].Release(ctx))
	require.NoError(t, next.Close(ctx))
}
