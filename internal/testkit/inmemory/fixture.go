// Package inmemory is the fixture of all tests of the library and its commands in bubbles: an etcd
// in memory, with clients and sessions. The fixtures of packages add to it.
package inmemory

import (
	"cmp"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/opnames"
	"github.com/pawl-locks/pawl/lease"
)

// A Fixture is a cluster, and what has been done on it. It ends with its test.
type Fixture struct {
	*testing.T
	Cluster   *etcdfake.Cluster
	Namespace string // of the clients
}

// InBubble runs f with a Fixture in a bubble, at whose end every goroutine is gone.
func InBubble(t *testing.T, o etcdfake.Options, f func(*Fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(New(t, o)) })
}

// New begins a Fixture.
func New(t *testing.T, o etcdfake.Options) *Fixture {
	c := etcdfake.New(o)
	t.Cleanup(c.Close)
	return &Fixture{T: t, Cluster: c}
}

// Client connects one more client.
func (f *Fixture) Client() *pawl.Client {
	f.Helper()
	return f.Dial(pawl.Config{})
}

// Dial connects a client with a Config. It fills in the endpoints, namespace and DialOptions,
// followed by more.
func (f *Fixture) Dial(cfg pawl.Config, more ...grpc.DialOption) *pawl.Client {
	f.Helper()
	cfg.Endpoints, cfg.Namespace = f.Cluster.Endpoints(), cmp.Or(cfg.Namespace, f.Namespace)
	cfg.DialOptions = append([]grpc.DialOption{f.Cluster.DialOption(), opnames.DialOption()}, more...)
	c, err := pawl.Dial(f.Context(), cfg)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = c.Close() })
	return c
}

// Session begins a session of owner, on a new client.
func (f *Fixture) Session(owner string) *pawl.Session {
	f.Helper()
	s, err := f.Client().NewSession(f.Context(), lease.Options{Owner: owner})
	if err != nil {
		f.Fatal(err)
	}
	return s
}
