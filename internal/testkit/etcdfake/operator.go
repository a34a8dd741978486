package etcdfake

import (
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// What a test does and sees behind the clients' backs: at once, linearizably,
// whatever the network and the members suffer from.

// Put writes a key, with a lease unless that is 0, and returns the revision.
// A lease that is not there is taken for none.
func (c *Cluster) Put(key, value string, lease int64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state.lessor.leases[lease] == nil {
		lease = 0
	}
	w := &write{state: c.state}
	w.put(&pb.PutRequest{Key: []byte(key), Value: []byte(value), Lease: lease})
	return w.done(ByOperator)
}

// Delete deletes a key and tells whether it was there.
func (c *Cluster) Delete(key string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := &write{state: c.state}
	n := w.deleteRange(&pb.DeleteRangeRequest{Key: []byte(key)}).Deleted
	w.done(ByOperator)
	return n > 0
}

// Revoke ends a lease and deletes its keys; it tells whether there was one.
func (c *Cluster) Revoke(id int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	ls := c.state.lessor.leases[id]
	if ls == nil {
		return false
	}
	c.state.endLease(ls, ByOperator)
	return true
}

// Compact forgets what is older than revision rev; one that is not possible
// does nothing.
func (c *Cluster) Compact(rev int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, _ = c.state.applyCompact(rev)
}

// Revision is that of the last change.
func (c *Cluster) Revision() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.store.rev
}

// Get returns a key; nil if it is not there.
func (c *Cluster) Get(key string) *mvccpb.KeyValue {
	c.mu.Lock()
	defer c.mu.Unlock()
	v := c.state.current()
	at, ok := v.at(key, v.rev)
	if !ok {
		return nil
	}
	return at.kv(key)
}

// Keys returns the keys that begin with prefix, sorted.
func (c *Cluster) Keys(prefix string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	v := c.state.current()
	return slices.Clone(v.keys(orFirst(prefix), prefixEnd(prefix), v.rev))
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
	for _, ls := range c.state.lessor.sorted() {
		out = append(out, Lease{ls.id, time.Duration(ls.ttl) * time.Second, ls.expires, ls.sortedKeys()})
	}
	return out
}

// Lease returns one lease; false if it is not there.
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
		return fromKey
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
	return fromKey
}
