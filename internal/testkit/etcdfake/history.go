package etcdfake

import (
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/pawl-locks/pawl/internal/etcdapi"
	"github.com/pawl-locks/pawl/internal/testkit/etcdfake/etcd"
)

// Cause is why a key changed.
type Cause = etcd.Cause

// The causes: a client's request, a client's revocation of a lease, a lease's
// expiry, and a test that called a method of Cluster.
const (
	ByClient   = etcd.ByClient
	ByRevoke   = etcd.ByRevoke
	ByExpiry   = etcd.ByExpiry
	ByOperator = etcd.ByOperator
)

// Change is one applied change of one key: the ground truth of a test.
type Change struct {
	At             time.Time
	Revision       int64
	Key            string
	Deleted        bool // if set, the rest is zero, except Why
	Value          []byte
	CreateRevision int64
	Version        int64
	Lease          int64
	Why            etcd.Cause
}

// History returns every change so far, in order, including those that were compacted or undone by
// Restore.
func (c *Cluster) History() []Change {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.history)
}

// OnChange makes the cluster call f with every later change, in order, at the very moment it takes
// effect: before it is answered and before any other request or watch can see it. The cluster
// stands still meanwhile, so f must be quick and must not call the cluster.
func (c *Cluster) OnChange(f func(Change)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.observers = append(c.observers, f)
}

// committed is notified of each commit. The caller holds c.mu, which is the point
// of OnChange.
func (c *Cluster) committed(events []*mvccpb.Event, why etcd.Cause) {
	now := time.Now()
	for _, e := range events {
		ch := Change{
			At: now, Revision: e.Kv.ModRevision, Key: string(e.Kv.Key),
			Deleted: e.Type == etcdapi.EventDelete, Value: e.Kv.Value,
			CreateRevision: e.Kv.CreateRevision, Version: e.Kv.Version, Lease: e.Kv.Lease, Why: why,
		}
		c.history = append(c.history, ch)
		for _, f := range c.observers {
			f(ch)
		}
	}
	for _, m := range c.members {
		if m.frozen == nil {
			m.notify(events)
		}
	}
}
