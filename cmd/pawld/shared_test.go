package main

import (
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
	"github.com/pawl-locks/pawl/test/etcdtest"
)

// shared returns the etcd server that all tests of the package share, started for the first of
// them. stopShared is called after the last one.
var (
	stopShared = func() {}
	shared     = sync.OnceValues(func() (*etcdtest.Server, error) {
		server, err := etcdtest.New(etcdtest.Options{})
		if err == nil {
			stopShared = server.Close
		}
		return server, err
	})
)

var spaces atomic.Int64

// A space is a part of an etcd server that a test has for itself, which is a namespace of the
// shared one, or a whole separate server.
type space struct {
	*etcdtest.Server
	namespace string
}

// ofShared returns a namespace of the shared server.
func ofShared(t *testing.T) *space {
	t.Helper()
	server, err := shared()
	require.NoError(t, err)
	return &space{server, strconv.FormatInt(spaces.Add(1), 10) + "."}
}

// ofOwn returns a server that the test may stop, fill up, or read the revisions of.
func ofOwn(t *testing.T) *space {
	t.Helper()
	return &space{Server: etcdtest.Start(t)}
}

// flags are those of a pawld in the space.
func (s *space) flags() []string {
	if s.namespace == "" {
		return []string{"--endpoints", s.Addr()}
	}
	return []string{"--endpoints", s.Addr(), "--namespace", s.namespace}
}

// dial connects a Go program to the same names.
func (s *space) dial(t *testing.T) *pawl.Client {
	t.Helper()
	client, err := pawl.Dial(t.Context(), pawl.Config{Endpoints: s.Endpoints(), Namespace: s.namespace})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// eventually waits for an event.
func eventually(t *testing.T, happened func() bool, about ...any) {
	t.Helper()
	testscale.Await(t, happened, about...)
}

// receive waits for what is sent.
func receive[T any](t *testing.T, c <-chan T, about ...any) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(testscale.Hang):
		require.Fail(t, "nothing is sent", about...)
	}
	return v
}
