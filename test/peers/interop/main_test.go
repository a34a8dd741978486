package interop

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/test/etcdtest"
)

// etcd's lock and election services keep their callers' leases alive with a client inside the server,
// which nothing closes when the server ends.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("go.etcd.io/etcd/client/v3.(*lessor).recvKeepAliveLoop"),
		goleak.IgnoreAnyFunction("go.etcd.io/etcd/client/v3.(*lessor).sendKeepAliveLoop"),
		goleak.IgnoreAnyFunction("go.etcd.io/etcd/client/v3.(*lessor).deadlineLoop"),
		goleak.IgnoreAnyFunction("go.etcd.io/etcd/server/v3/proxy/grpcproxy/adapter.newPipeStream.func1"),
		goleak.IgnoreAnyFunction("go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc.(*LeaseServer).leaseKeepAlive"))
}

// bench is an etcd with a client of either kind.
type bench struct {
	t    *testing.T
	ctx  context.Context
	pawl *pawl.Client
	etcd *clientv3.Client
}

func start(t *testing.T) *bench {
	t.Helper()
	s := etcdtest.Start(t)
	ctx, cancel := context.WithTimeout(context.Background(), testscale.Hang)
	t.Cleanup(cancel)
	c, err := pawl.Dial(ctx, pawl.Config{Endpoints: s.Endpoints()})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	v3, err := clientv3.New(clientv3.Config{Endpoints: s.Endpoints(), Logger: zap.NewNop(), DialTimeout: testscale.Hang})
	require.NoError(t, err)
	t.Cleanup(func() { _ = v3.Close() })
	return &bench{t, ctx, c, v3}
}

func (b *bench) session() *pawl.Session {
	b.t.Helper()
	s, err := b.pawl.NewSession(b.ctx, lease.Options{TTL: 10 * time.Second})
	require.NoError(b.t, err)
	return s
}

func (b *bench) peer() *concurrency.Session {
	b.t.Helper()
	s, err := concurrency.NewSession(b.etcd, concurrency.WithTTL(10))
	require.NoError(b.t, err)
	b.t.Cleanup(func() { _ = s.Close() })
	return s
}

// queued waits until n keys are under name.
func (b *bench) queued(name string, n int64) {
	b.t.Helper()
	require.Eventually(b.t, func() bool {
		r, err := b.etcd.Get(b.ctx, name+"/", clientv3.WithPrefix(), clientv3.WithCountOnly())
		return err == nil && r.Count == n
	}, testscale.Hang, 5*time.Millisecond)
}

// acquired is the lock or the term of one whose turn has come, and how to give it up.
type acquired struct {
	who  string
	give func()
}

// inOrder has each of enter, one after the other, wait in the queue of name, and
// checks that they come to hold it in that order, one at a time.
func (b *bench) inOrder(name string, enter []func(turns chan<- acquired)) (order []string) {
	b.t.Helper()
	turns := make(chan acquired, len(enter))
	for i, f := range enter {
		go f(turns) // ends with its turn, which comes before the end of the test
		b.queued(name, int64(i)+1)
	}
	for range enter {
		var a acquired
		select {
		case a = <-turns:
		case <-b.ctx.Done():
			require.Fail(b.t, "nobody's turn came", "after %q", order)
		}
		select {
		case other := <-turns:
			require.Fail(b.t, "two at once", "%s and %s", a.who, other.who)
		case <-time.After(20 * time.Millisecond):
		}
		order = append(order, a.who)
		a.give()
	}
	b.queued(name, 0)
	return order
}
