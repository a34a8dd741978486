package lock_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/testkit/bystander"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
	"github.com/pawl-locks/pawl/lock"
	"github.com/pawl-locks/pawl/observe"
	"github.com/pawl-locks/pawl/test/etcdtest"
)

// queued receives for each lock that is queued for.
type queued chan struct{}

func (q queued) Observe(_ context.Context, ev observe.Event) {
	if _, ok := ev.(observe.LockEnqueued); ok {
		q <- struct{}{}
	}
}

// Thousands begin to wait at once in one session, for a lock that it holds. The holder keeps it while
// they queue, and while they give up, and so does another client.
// rule: G12
func TestThousandsOfWaitersBegunAtOnceLeaveTheHolderItsLock(t *testing.T) {
	waiters := testscale.Of(1_000, 20_000)
	s := etcdtest.Start(t)
	all := make(queued, waiters+1)
	c, err := pawl.Dial(t.Context(), pawl.Config{Endpoints: s.Endpoints(), Observer: all})
	require.NoError(t, err)
	defer func() { assert.NoError(t, c.Close()) }()
	defer bystander.Start(t, pawl.Config{Endpoints: s.Endpoints()})()
	holder, err := lock.New(c, "name", lock.Options{}).Acquire(t.Context())
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	<-all // its own
	began := time.Now()
	var wg sync.WaitGroup
	for range waiters {
		wg.Go(func() {
			_, err := lock.New(c, "name", lock.Options{}).Acquire(ctx)
			assert.ErrorIs(t, err, context.Canceled)
		})
	}
	for n := range waiters {
		select {
		case <-all:
		case <-time.After(testscale.Hang): // of thousands all are slow, but none this slow
			require.Fail(t, "too few wait", "%d", n)
		}
		require.NoError(t, holder.Err(), "%d wait", n)
	}
	t.Logf("%d wait after %v", waiters, time.Since(began).Round(100*time.Millisecond))
	cancel()
	wg.Wait()
	assert.NoError(t, holder.Release(t.Context()))
}

// A client takes thousands of locks at once, with a password that is not root's. It gets all of them, and
// keeps what it had.
// rule: G12
func TestThousandsOfLocksTakenAtOnceWithAPassword(t *testing.T) {
	locks := testscale.Of(1_000, 4_000)
	s := etcdtest.Start(t)
	s.AddUser(t, "app", "pw", etcdtest.Access{Read: true, Write: true})
	s.EnableAuth(t, "root")
	c, err := pawl.Dial(t.Context(), pawl.Config{Endpoints: s.Endpoints(), Username: "app", Password: "pw"})
	require.NoError(t, err)
	defer func() { _ = c.Close() }()
	defer bystander.Start(t, pawl.Config{Endpoints: s.Endpoints(), Username: "root", Password: "root"})()
	kept, err := lock.New(c, "kept", lock.Options{}).Acquire(t.Context())
	require.NoError(t, err)
	began := time.Now()
	held := make([]*lock.Held, locks)
	var last atomic.Int64
	var wg sync.WaitGroup
	for i := range held {
		wg.Go(func() {
			var err error
			held[i], err = lock.New(c, fmt.Sprint("lock", i), lock.Options{}).Acquire(t.Context())
			assert.NoError(t, err)
			last.Store(time.Since(began).Milliseconds())
		})
	}
	wg.Wait()
	t.Logf("%d locks after %d ms", locks, last.Load())
	assert.NoError(t, kept.Err())
	for _, h := range held {
		if h != nil {
			assert.NoError(t, h.Err())
			wg.Go(func() { assert.NoError(t, h.Release(t.Context())) })
		}
	}
	wg.Wait()
	assert.NoError(t, kept.Release(t.Context()))
}
