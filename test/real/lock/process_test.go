package lock_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
	"github.com/pawl-locks/pawl/kv"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
	"github.com/pawl-locks/pawl/observe"
)

// endpointOf is the environment variable that names etcd's address to a child.
const endpointOf = "PAWL_LOCK_TEST_ENDPOINT"

func dial(t testing.TB, endpoint string) *pawl.Client {
	t.Helper()
	c, err := pawl.Dial(context.Background(), pawl.Config{Endpoints: []string{endpoint}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// rounds are how often each worker adds.
var rounds = testscale.Of(30, 300)

// TestRoleWorker is not a test: it is one of the processes that add to a number
// in etcd, read and written under the lock, with nothing else to protect it.
func TestRoleWorker(t *testing.T) {
	if os.Getenv(role) != "worker" {
		t.Skip("the role of a child process")
	}
	c := dial(t, os.Getenv(endpointOf))
	s, err := c.NewSession(context.Background(), lease.Options{TTL: 5 * time.Minute}) // a busy machine loses none
	require.NoError(t, err)
	var last fencing.Token
	for range rounds {
		require.NoError(t, lock.New(s, "counter", lock.Options{}).Do(context.Background(), func(ctx context.Context, h *lock.Held) error {
			assert.Greater(t, h.Token(), last)
			last = h.Token()
			return add(ctx, c.KV())
		}))
	}
	fmt.Printf("done %v\n", !t.Failed())
}

// add reads the number and writes it back with one more.
func add(ctx context.Context, k *kv.Client) error {
	was, err := k.Txn(ctx, kv.Txn{Then: []kv.Op{kv.Get("number")}})
	if err != nil {
		return err
	}
	n, _ := strconv.Atoi(string(was.Gets[0].Value))
	_, err = k.Txn(ctx, kv.Txn{Then: []kv.Op{kv.Put("number", []byte(strconv.Itoa(n+1)))}})
	return err
}

// rule: K1
func TestProcessesExcludeEachOther(t *testing.T) {
	t.Parallel()
	endpoint := realServer(t)
	_, err := dial(t, endpoint).KV().Txn(context.Background(), kv.Txn{Then: []kv.Op{kv.Delete("number")}}) // of a run before
	require.NoError(t, err)
	const workers = 3
	var all [workers]*process
	for i := range workers {
		all[i] = child(t, "worker", endpointOf+"="+endpoint)
	}
	for _, p := range all {
		assert.Equal(t, "true", p.said("done"))
	}
	got, err := dial(t, endpoint).KV().Txn(context.Background(), kv.Txn{Then: []kv.Op{kv.Get("number")}})
	require.NoError(t, err)
	assert.Equal(t, strconv.Itoa(workers*rounds), string(got.Gets[0].Value))
}

// The same life on a real server as on the one in memory.
func TestALocksLifeOnARealServer(t *testing.T) {
	t.Parallel()
	endpoint := realServer(t)
	ctx := context.Background()
	one, err := dial(t, endpoint).Session(ctx)
	require.NoError(t, err)
	renewed := make(chan observe.SessionRenewed, 100)
	client, err := pawl.Dial(ctx, pawl.Config{Endpoints: []string{endpoint}, Observer: observer(func(ev observe.Event) {
		if ev, ok := ev.(observe.SessionRenewed); ok {
			renewed <- ev
		}
	})})
	require.NoError(t, err)
	defer client.Close()
	const ttl = 6 * time.Second
	two, err := client.NewSession(ctx, lease.Options{TTL: ttl})
	require.NoError(t, err)
	mine, others := lock.New(one, "life", lock.Options{}), lock.New(two, "life", lock.Options{})

	h, err := mine.Acquire(ctx)
	require.NoError(t, err)
	_, err = others.TryAcquire(ctx)
	require.ErrorIs(t, err, lock.ErrBusy)
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	_, err = others.Acquire(short)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	won := make(chan *lock.Held)
	go func() { // ends when the lock is free
		h, err := others.Acquire(ctx)
		assert.NoError(t, err)
		won <- h
	}()
	becomes(t, "it waits", func() bool { q, err := mine.Queue(ctx); return err == nil && len(q) == 2 })
	require.NoError(t, h.Confirm(ctx))
	require.NoError(t, h.Release(ctx))
	next := <-won
	require.NoError(t, next.Err())
	assert.Greater(t, next.Token(), h.Token())

	_, err = client.KV().Txn(ctx, kv.Txn{Guards: []kv.Guard{next.Guard()}, Then: []kv.Op{kv.Put("life's", []byte("x"))}})
	require.NoError(t, err)
	_, err = client.KV().Txn(ctx, kv.Txn{Then: []kv.Op{kv.Delete(next.Key())}})
	require.NoError(t, err)
	<-next.Done()
	assert.ErrorIs(t, next.Err(), lock.ErrKeyDeleted)
	assert.ErrorIs(t, next.Release(ctx), lock.ErrLost)

	last, err := others.Acquire(ctx)
	require.NoError(t, err)
	for lasted := ttl; lasted > 0; { // more than a TTL, so what is left was added, and used up
		ev := <-renewed
		lasted -= ev.Left - ev.Was
	}
	require.NoError(t, last.Err(), "renewed")
	require.NoError(t, two.Close(ctx))
	assert.ErrorIs(t, last.Err(), lease.ErrClosed)
	free, err := mine.TryAcquire(ctx)
	require.NoError(t, err, "the lease is revoked")
	require.NoError(t, free.Release(ctx))
}
