package etcdfake

import (
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/pawl-locks/pawl/internal/testkit/etcdfake/etcd"
)

// These are a test's changes and reads, without a client. They are immediate and linearizable,
// whatever faults the network and the members have.

// Put writes a key, with a lease unless that is 0, and returns the revision. A lease that does
// not exist counts as none.
func (c *Cluster) Put(key, value string, lease int64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state.Lessor.Leases[lease] == nil {
		lease = 0
	}
	w := &etcd.Write{State: c.state}
	w.Put(&pb.PutRequest{Key: []byte(key), Value: []byte(value), Lease: lease})
	return w.Done(etcd.ByOperator)
}

// Delete deletes a key and reports whether it existed.
func (c *Cluster) Delete(key string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := &etcd.Write{State: c.state}
	n := w.DeleteRange(&pb.DeleteRangeRequest{Key: []byte(key)}).Deleted
	w.Done(etcd.ByOperator)
	return n > 0
}

// Revoke ends a lease and deletes its keys. It reports whether there was one.
func (c *Cluster) Revoke(id int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	ls := c.state.Lessor.Leases[id]
	if ls == nil {
		return false
	}
	c.state.EndLease(ls, etcd.ByOperator)
	return true
}

// Compact compacts revisions below rev. It does nothing if that is not possible.
func (c *Cluster) Compact(rev int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, _ = c.state.ApplyCompact(rev)
}

// Revision is the revision of the last change.
func (c *Cluster) Revision() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.Store.Rev
}

// Get returns a key, or nil if it does not exist.
func (c *Cluster) Get(key string) *mvccpb.KeyValue {
	c.mu.Lock()
	defer c.mu.Unlock()
	v := c.state.Current()
	at, ok := v.At(key, v.Rev)
	if !ok {
		return nil
	}
	return at.Kv(key)
}

// Keys returns the keys that begin with prefix, sorted.
func (c *Cluster) Keys(prefix string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	v := c.state.Current()
	return slices.Clone(v.Keys(orFirst(prefix), prefixEnd(prefix), v.Rev))
}

// Lease is a lease as it is at the moment.
type Lease struct {
	ID      int64
	TTL     time.Duration // as granted
	Expires time.Time     // it is deleted at the next tick after that
	Keys    []string
}

// Leases returns all leases, the one that expires first before the others.
func (c *Cluster) Leases() []Lease {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []Lease
	for _, ls := range c.state.Lessor.Sorted() {
		out = append(out, Lease{ls.ID, time.Duration(ls.TTL) * time.Second, ls.Expires, ls.SortedKeys()})
	}
	return out
}

// Lease returns one lease, and false if it does not exist.
func (c *Cluster) Lease(id int64) (Lease, bool) {
	for _, l := range c.Leases() {
		if l.ID == id {
			return l, true
		}
	}
	return Lease{}, false
}

func orFirst(prefix string) string {
	if prefix == "" {
		return etcd.FromKey
	}
	return prefix
}

// prefixEnd is the end of the range of all keys with that prefix.
func prefixEnd(prefix string) string {
	b := []byte(prefix)
	for i := len(b) - 1; i >= 0; i-- {
		if b[i] < 0xff {
			b[i]++
			return string(b[:i+1])
		}
	}
	return etcd.FromKey
}
