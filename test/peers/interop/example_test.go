package interop

import (
	"context"
	"errors"
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
func before(ctx context.Context, client *clientv3.Client, work func(ctx context.Context, token int64) error) error {
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
	token, err := tokenOf(ctx, client, m)
	if err != nil {
		return err
	}
	return work(ctx, token)
}

// tokenOf is the fencing token of a Mutex that is held, the one that pawl's Held.Token would
// be: the create revision of its key.
func tokenOf(ctx context.Context, client *clientv3.Client, m *concurrency.Mutex) (int64, error) {
	resp, err := client.Get(ctx, m.Key())
	if err != nil {
		return 0, err
	}
	if len(resp.Kvs) == 0 {
		return 0, errors.New("the lock is lost")
	}
	return resp.Kvs[0].CreateRevision, nil
}

// after is the same program on pawl, and excludes those that are not moved.
func after(ctx context.Context, client *pawl.Client, work func(ctx context.Context, token int64) error) error {
	m := lock.New(client, "/jobs/nightly", lock.Options{EtcdLayout: true})
	return m.Do(ctx, func(ctx context.Context, h *lock.Held) error { return work(ctx, int64(h.Token())) })
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

	inside, turns, last := 0, 0, int64(0) // guarded by the lock alone
	work := func(_ context.Context, token int64) error {
		if inside++; inside != 1 {
			return fmt.Errorf("%d at once", inside)
		}
		if token <= last {
			return fmt.Errorf("token %d after %d", token, last)
		}
		last = token
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
