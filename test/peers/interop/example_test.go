package interop

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/lock"
	"github.com/pawl-locks/pawl/test/etcdtest"
)

// before is a program that is not moved yet.
func before(ctx context.Context, client *clientv3.Client, work func(ctx context.Context) error) error {
	session, err := concurrency.NewSession(client, concurrency.WithTTL(15))
	if err != nil {
		return err
	}
	defer session.Close()
	m := concurrency.NewMutex(session, "/jobs/nightly")
	if err := m.Lock(ctx); err != nil {
		return err
	}
	defer m.Unlock(ctx)
	return work(ctx)
}

// after is the same program on pawl, and excludes those that are not moved.
func after(ctx context.Context, client *pawl.Client, work func(ctx context.Context) error) error {
	m := lock.New(client, "/jobs/nightly", lock.Options{EtcdLayout: true})
	return m.Do(ctx, func(ctx context.Context, _ *lock.Held) error { return work(ctx) })
}

func TestOldAndNewCodeExcludeEachOther(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t)
	old, err := clientv3.New(clientv3.Config{Endpoints: s.Endpoints()})
	require.NoError(t, err)
	defer old.Close()
	client, err := pawl.Dial(t.Context(), pawl.Config{Endpoints: s.Endpoints()})
	require.NoError(t, err)
	defer client.Close()

	inside, turns := 0, 0 // guarded by the lock alone
	work := func(context.Context) error {
		if inside++; inside != 1 {
			return fmt.Errorf("%d at once", inside)
		}
		turns++
		inside--
		return nil
	}
	done := make(chan error)
	for range 5 {
		go func() { done <- before(t.Context(), old, work) }()   // ends with its work
		go func() { done <- after(t.Context(), client, work) }() // likewise
	}
	for range 10 {
		assert.NoError(t, <-done)
	}
	assert.Equal(t, 10, turns)
}
