package etcdfake

import "github.com/pawl-locks/pawl/internal/testkit/etcdfake/etcd"
import "time"

// Snapshot is a copy of a cluster's keys and leases.
type Snapshot struct {
	store  *etcd.Store
	lessor *etcd.Lessor
}

// Snapshot copies the keys and leases as they are.
func (c *Cluster) Snapshot() *Snapshot {
	c.mu.Lock()
	defer c.mu.Unlock()
	return &Snapshot{c.state.Store.Clone(), c.state.Lessor.Clone()}
}

// RestoreOptions are the options of a restore. The zero value restores the snapshot unchanged, so
// that the revision goes back.
type RestoreOptions struct {
	ClusterID    uint64 // unchanged if 0; set it as a new initial-cluster-token would
	BumpRevision int64  // how much higher the restored state's revision is
	MarkCompact  bool   // with BumpRevision, compacts everything before, so that watches end
	Term         uint64 // of the first leader; 2 if 0, as in a new cluster
}

// Restore makes the state that of a snapshot, as an operator does who starts new members from it.
// Connections are reset, streams end, and every lease has its full TTL. The same snapshot can be
// restored again.
func (c *Cluster) Restore(s *Snapshot, o RestoreOptions) {
	setDefault(&o.Term, 2)
	c.mu.Lock()
	for _, m := range c.members {
		for l := range m.streams {
			l.cancel(errStopped)
			delete(m.streams, l)
		}
		m.frozen = nil
	}
	for _, ls := range c.state.Lessor.Leases {
		close(ls.Ended)
	}
	c.state.Store, c.state.Lessor = s.store.Clone(), s.lessor.Clone()
	c.state.Lessor.Promote(time.Now(), 0)
	c.state.Store.Rev += o.BumpRevision
	if o.MarkCompact {
		c.state.Store.Compact(c.state.Store.Rev)
	}
	if o.ClusterID != 0 {
		c.clusterID = o.ClusterID
	}
	c.term = o.Term
	c.mu.Unlock()
	c.hurry()
	for _, m := range c.members {
		m.Reset()
	}
}
