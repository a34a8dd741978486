package lock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/testkit/faultproxy"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
	"github.com/pawl-locks/pawl/test/etcdtest"
)

// A holder, a waiter and a new request get over a connection that swallows what is sent, here with TLS
// and a password. The pings of gRPC, which would end that connection after 13 s, are turned off.
// rule: C4
func TestAConnectionThatSwallowsIsReplacedOnARealServer(t *testing.T) {
	t.Parallel()
	s := etcdtest.StartWith(t, etcdtest.Options{TLS: true})
	s.EnableAuth(t, "pw")
	proxy := faultproxy.Start(t, s.Addr())
	client := func(address string) *pawl.Client {
		c, err := pawl.Dial(t.Context(), pawl.Config{
			Endpoints: []string{address}, Username: "root", Password: "pw", TLS: s.TLS("any"), Session: lease.Options{TTL: 5 * time.Minute},
			DialOptions: []grpc.DialOption{grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: time.Hour})},
		})
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	acquire := func(ctx context.Context, c *pawl.Client, name string) *lock.Held {
		h, err := lock.New(c, name, lock.Options{}).Acquire(ctx)
		require.NoError(t, err)
		return h
	}
	c, other := client(proxy.Addr()), client(s.Addr())
	held, before := acquire(t.Context(), c, "held"), acquire(t.Context(), other, "waited for")
	won := make(chan error, 1)
	go func() { // ends when the lock is granted
		h, err := lock.New(c, "waited for", lock.Options{}).Acquire(t.Context())
		if err == nil {
			err = h.Release(t.Context())
		}
		won <- err
	}()
	for {
		q, err := lock.New(other, "waited for", lock.Options{}).Queue(t.Context())
		require.NoError(t, err)
		if len(q) == 2 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	for range 2 {
		proxy.Swallow()
		require.NoError(t, acquire(t.Context(), c, "new").Release(t.Context()))
	}
	require.NoError(t, before.Release(t.Context()))
	require.NoError(t, <-won)
	assert.NoError(t, held.Confirm(t.Context()))
	assert.NoError(t, held.Release(t.Context()))
}
