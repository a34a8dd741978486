package etcdfake

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

const maxLeaseTTL = 9_000_000_000 // seconds; the server refuses more

// lease is one lease. Its keys are those whose last version carries it.
type lease struct {
	id      int64
	ttl     int64 // seconds, as granted
	expires time.Time
	keys    map[string]struct{}
	ended   chan struct{} // closed when it is revoked or expired
}

// lessor holds the leases. Time comes in as an argument.
type lessor struct {
	leases map[int64]*lease
	owner  map[string]int64 // the lease of each key that has one
	minTTL int64
	rate   float64 // how fast the leader's clock runs; 1 is right
}

func newLessor(minTTL int64) *lessor {
	return &lessor{
		leases: map[int64]*lease{}, owner: map[string]int64{},
		minTTL: minTTL, rate: 1,
	}
}

// span is how long ttl seconds of the leader's clock last.
func (l *lessor) span(ttl int64) time.Duration {
	if ttl > int64(math.MaxInt64/time.Second)/2 {
		return math.MaxInt64 / 4
	}
	return time.Duration(float64(time.Duration(ttl)*time.Second) / l.rate)
}

func (l *lessor) grant(now time.Time, id, ttl int64) (*lease, error) {
	if id == 0 {
		return nil, rpctypes.ErrGRPCLeaseNotFound
	}
	if ttl > maxLeaseTTL {
		return nil, rpctypes.ErrGRPCLeaseTTLTooLarge
	}
	if l.leases[id] != nil {
		return nil, rpctypes.ErrGRPCLeaseExist
	}
	ls := &lease{
		id: id, ttl: max(ttl, l.minTTL),
		keys: map[string]struct{}{}, ended: make(chan struct{}),
	}
	ls.expires = now.Add(l.span(ls.ttl))
	l.leases[id] = ls
	return ls, nil
}

// renew gives the lease its full TTL again. Not for one that has expired.
func (l *lessor) renew(now time.Time, ls *lease) { ls.expires = now.Add(l.span(ls.ttl)) }

// promote is what a new leader does: every lease gets its full TTL again, and
// an election timeout on top.
func (l *lessor) promote(now time.Time, extend time.Duration) {
	for _, ls := range l.leases {
		ls.expires = now.Add(l.span(ls.ttl) + extend)
	}
}

// move notes that key belongs to lease id from now on; 0 is none.
func (l *lessor) move(key string, id int64) {
	if old := l.leases[l.owner[key]]; old != nil {
		delete(old.keys, key)
	}
	delete(l.owner, key)
	if ls := l.leases[id]; ls != nil {
		ls.keys[key] = struct{}{}
		l.owner[key] = id
	}
}

// end forgets the lease; its keys must have been deleted before.
func (l *lessor) end(ls *lease) {
	delete(l.leases, ls.id)
	close(ls.ended)
}

// next is when the first lease expires; false if there is none.
func (l *lessor) next() (first time.Time, found bool) {
	for _, ls := range l.leases {
		if !found || ls.expires.Before(first) {
			first, found = ls.expires, true
		}
	}
	return first, found
}

// expired returns the leases whose time is over, the longest overdue first.
func (l *lessor) expired(now time.Time) []*lease {
	var out []*lease
	for _, ls := range l.leases {
		if !now.Before(ls.expires) {
			out = append(out, ls)
		}
	}
	slices.SortFunc(out, byExpiry)
	return out
}

func (l *lessor) sorted() []*lease {
	return slices.SortedFunc(maps.Values(l.leases), byExpiry)
}

func byExpiry(a, b *lease) int {
	if c := a.expires.Compare(b.expires); c != 0 {
		return c
	}
	return cmp.Compare(a.id, b.id)
}

func (ls *lease) sortedKeys() []string { return slices.Sorted(maps.Keys(ls.keys)) }

// clone copies the leases as a backup would: who holds what, and no time.
func (l *lessor) clone() *lessor {
	c := newLessor(l.minTTL)
	c.rate = l.rate
	c.owner = maps.Clone(l.owner)
	for id, ls := range l.leases {
		c.leases[id] = &lease{
			id: id, ttl: ls.ttl, expires: ls.expires,
			keys: maps.Clone(ls.keys), ended: make(chan struct{}),
		}
	}
	return c
}
