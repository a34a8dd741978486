package listwatch_test

import (
	"context"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc"

	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/listwatch"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/leaks"
	"github.com/pawl-locks/pawl/internal/testkit/require"
	"github.com/pawl-locks/pawl/internal/watcher"
)

func TestMain(m *testing.M) { leaks.VerifyTestMain(m) }

// fixture is an etcd in memory, a connection to it and a Hub, in a bubble.
type fixture struct {
	*testing.T
	f    *etcdfake.Cluster
	c    *cluster.Cluster
	hub  *watcher.Hub
	news chan struct{}
}

func inBubble(t *testing.T, f func(w *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		fake := etcdfake.New(etcdfake.Options{})
		t.Cleanup(fake.Close)
		c, err := cluster.Dial(context.Background(), cluster.Config{Endpoints: fake.Endpoints(), DialOptions: []grpc.DialOption{fake.DialOption()}})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, c.Close()) })
		hub := watcher.New(c)
		t.Cleanup(hub.Close)
		f(&fixture{T: t, f: fake, c: c, hub: hub, news: make(chan struct{}, 1)})
	})
}

// open begins a Tail of all keys below "k/".
func (w *fixture) open(from int64, strip func(*watcher.Event)) *listwatch.Tail {
	tail := listwatch.Open(w.hub, listwatch.Keys{Key: "k/", End: "k0"}, from, w.news, strip)
	w.Cleanup(tail.Close)
	return tail
}

// drain takes what tail holds, and returns its events' revisions.
func drain(tail *listwatch.Tail) (revisions []int64) {
	held, _, _ := tail.Peek()
	for _, c := range held {
		for _, e := range c.Events {
			revisions = append(revisions, e.ModRevision)
		}
		tail.Drop()
	}
	return revisions
}
