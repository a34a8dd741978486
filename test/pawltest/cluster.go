package pawltest

import (
	"context"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake"
)

// dialTimeout bounds how long Client waits for a cluster that does not answer.
const dialTimeout = 10 * time.Second

// bubblesAgo is less than how long ago the clock of a new bubble is, because a bubble's clock begins in
// 2000. A real clock is not set back by that much.
const bubblesAgo = 365 * 24 * time.Hour

// Cluster is an etcd in memory. Its methods may be called from any goroutine.
type Cluster struct {
	fake *etcdfake.Cluster
	made time.Time // by the clock of its bubble, if it has one

	mu      sync.Mutex
	clients []*pawl.Client
	links   map[*pawl.Client]*link
}

// New starts a cluster that lasts until the end of the test. Called in a
// synctest bubble, it belongs to that bubble.
func New(t testing.TB) *Cluster {
	t.Helper()
	c := &Cluster{fake: etcdfake.New(etcdfake.Options{}), made: time.Now().Round(0)}
	t.Cleanup(c.close)
	return c
}

// close ends clients first: they can still remove their keys at the server, even if the test
// left the cluster cut.
func (c *Cluster) close() {
	c.fake.Heal()
	c.mu.Lock()
	clients := c.clients
	c.clients = nil
	for _, l := range c.links {
		l.heal()
	}
	c.mu.Unlock()
	for _, client := range clients {
		_ = client.Close()
	}
	c.fake.Close()
}

// Client connects a client to the cluster, as one process would. It fills in cfg.Endpoints and uses
// everything else in cfg as it is. TLS must be nil. The client is closed at the end of the test t,
// if it was not before. The test fails if the client cannot connect within 10 s because the cluster
// is cut, if cfg is wrong, or if the cluster was made outside of the caller's synctest bubble.
func (c *Cluster) Client(t testing.TB, cfg pawl.Config) *pawl.Client {
	t.Helper()
	if cfg.TLS != nil || cfg.TLSFiles != (pawl.TLSFiles{}) {
		t.Fatal("pawltest: client: the cluster in memory has no TLS")
	}
	if time.Now().Round(0).Before(c.made.Add(-bubblesAgo)) {
		t.Fatal("pawltest: client: the cluster was made outside of this synctest bubble: call New inside")
	}
	cfg.Endpoints = c.fake.Endpoints()
	own := len(cfg.DialOptions)
	l := newLink()
	cfg.DialOptions = append(cfg.DialOptions[:own:own], grpc.WithContextDialer(l.through(c.fake.Dial)))
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	client, err := pawl.Dial(ctx, cfg)
	if err != nil {
		t.Fatalf("pawltest: client: %v", err)
	}
	t.Cleanup(func() { _ = client.Close() })
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clients = append(c.clients, client)
	if c.links == nil {
		c.links = make(map[*pawl.Client]*link)
	}
	c.links[client] = l
	return client
}

// CutClient makes the cluster unreachable for one client that Client of this cluster made. Its
// connections stay open, and what either side sends waits. Other clients are not affected. It does
// nothing if client is nil or another cluster's.
func (c *Cluster) CutClient(client *pawl.Client) {
	if l := c.link(client); l != nil {
		l.cut()
	}
}

// HealClient ends CutClient. What was sent meanwhile arrives now.
func (c *Cluster) HealClient(client *pawl.Client) {
	if l := c.link(client); l != nil {
		l.heal()
	}
}

func (c *Cluster) link(client *pawl.Client) *link {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.links[client]
}

// Revoke makes the server end a lease and delete all keys on it at once. An operator can do the
// same, and the server does when the lease expires. It does nothing if the lease does not exist.
// Session.ID is the lease of a session.
func (c *Cluster) Revoke(leaseID int64) { c.fake.Revoke(leaseID) }

// Delete deletes a key, as an operator can. It does nothing if the key does not exist. Held.Key
// is the key of a lock.
func (c *Cluster) Delete(key string) { c.fake.Delete(key) }

// Cut makes the cluster unreachable. Nothing is answered, open connections stay open, and new ones
// get no answer either. Leases still expire.
func (c *Cluster) Cut() { c.fake.BlackHole() }

// Heal ends Cut. What was sent meanwhile arrives now, as a network would
// deliver it.
func (c *Cluster) Heal() { c.fake.Heal() }
