// Package inmemory is an etcd in memory with clients, sessions and holders on it, for tests, in
// a bubble, of code that shows them to people.
package inmemory

import (
	"testing"

	"google.golang.org/grpc"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/internal/testkit/named"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
)

// A Fixture is a cluster, and what has been done on it. It ends with its test.
type Fixture struct {
	*testing.T
	Cluster   *etcdfake.Cluster
	Namespace string // of the clients
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
	c, err := pawl.Dial(f.Context(), pawl.Config{
		Endpoints: f.Cluster.Endpoints(), Namespace: f.Namespace, DialOptions: []grpc.DialOption{f.Cluster.DialOption(), named.Requests()},
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = c.Close() })
	return c
}

// Session begins a session of owner, on a client of its own.
func (f *Fixture) Session(owner string) *pawl.Session {
	f.Helper()
	s, err := f.Client().NewSession(f.Context(), lease.Options{Owner: owner})
	if err != nil {
		f.Fatal(err)
	}
	return s
}

// Holds acquires name.
func (f *Fixture) Holds(s *pawl.Session, name string) *lock.Held {
	f.Helper()
	h, err := lock.New(s, name, lock.Options{}).Acquire(f.Context())
	if err != nil {
		f.Fatal(err)
	}
	return h
}
