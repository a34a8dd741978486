// Package inmemory is an etcd in memory with clients, sessions and holders on it, for tests, in
// a bubble, of code that shows them to people.
package inmemory

import (
	"testing"

	"google.golang.org/grpc"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
)

// A World is a cluster, and what has been done on it. It ends with its test.
type World struct {
	*testing.T
	Cluster   *etcdfake.Cluster
	Namespace string // of the clients
}

// New begins a World.
func New(t *testing.T, o etcdfake.Options) *World {
	c := etcdfake.New(o)
	t.Cleanup(c.Close)
	return &World{T: t, Cluster: c}
}

// Client connects one more client.
func (w *World) Client() *pawl.Client {
	w.Helper()
	c, err := pawl.Dial(w.Context(), pawl.Config{
		Endpoints: w.Cluster.Endpoints(), Namespace: w.Namespace, DialOptions: []grpc.DialOption{w.Cluster.DialOption()},
	})
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = c.Close() })
	return c
}

// Session begins a session of owner, on a client of its own.
func (w *World) Session(owner string) *pawl.Session {
	w.Helper()
	s, err := w.Client().NewSession(w.Context(), lease.Options{Owner: owner})
	if err != nil {
		w.Fatal(err)
	}
	return s
}

// Holds acquires name.
func (w *World) Holds(s *pawl.Session, name string) *lock.Held {
	w.Helper()
	h, err := lock.New(s, name, lock.Options{}).Acquire(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	return h
}
