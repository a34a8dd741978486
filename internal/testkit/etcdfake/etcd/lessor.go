package etcd

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
	ID      int64
	TTL     int64 // seconds, as granted
	Expires time.Time
	keys    map[string]struct{}
	Ended   chan struct{} // closed when it is revoked or expired
}

// Lessor holds the leases. Time comes in as an argument.
type Lessor struct {
	Leases map[int64]*lease
	owner  map[string]int64 // the lease of each key that has one
	minTTL int64
	Rate   float64 // how fast the leader's clock runs; 1 is right
}

// NewLessor returns a Lessor that raises a TTL below minTTL seconds to it.
func NewLessor(minTTL int64) *Lessor {
	return &Lessor{
		Leases: map[int64]*lease{}, owner: map[string]int64{},
		minTTL: minTTL, Rate: 1,
	}
}

// span is how long ttl seconds of the leader's clock last.
func (l *Lessor) span(ttl int64) time.Duration {
	if ttl > int64(math.MaxInt64/time.Second)/2 {
		return math.MaxInt64 / 4
	}
	return time.Duration(float64(time.Duration(ttl)*time.Second) / l.Rate)
}

func (l *Lessor) grant(now time.Time, id, ttl int64) (*lease, error) {
	if id == 0 {
		return nil, rpctypes.ErrGRPCLeaseNotFound
	}
	if ttl > maxLeaseTTL {
		return nil, rpctypes.ErrGRPCLeaseTTLTooLarge
	}
	if l.Leases[id] != nil {
		return nil, rpctypes.ErrGRPCLeaseExist
	}
	ls := &lease{
		ID: id, TTL: max(ttl, l.minTTL),
		keys: map[string]struct{}{}, Ended: make(chan struct{}),
	}
	ls.Expires = now.Add(l.span(ls.TTL))
	l.Leases[id] = ls
	return ls, nil
}

// Renew gives the lease its full TTL again. It must not be called for one that has expired.
func (l *Lessor) Renew(now time.Time, ls *lease) { ls.Expires = now.Add(l.span(ls.TTL)) }

// Promote is what a new leader does. Every lease gets its full TTL again, and an election timeout
// on top.
func (l *Lessor) Promote(now time.Time, extend time.Duration) {
	for _, ls := range l.Leases {
		ls.Expires = now.Add(l.span(ls.TTL) + extend)
	}
}

// move notes that key now belongs to lease id. 0 is none.
func (l *Lessor) move(key string, id int64) {
	if old := l.Leases[l.owner[key]]; old != nil {
		delete(old.keys, key)
	}
	delete(l.owner, key)
	if ls := l.Leases[id]; ls != nil {
		ls.keys[key] = struct{}{}
		l.owner[key] = id
	}
}

// end forgets the lease. Its keys must have been deleted before.
func (l *Lessor) end(ls *lease) {
	delete(l.Leases, ls.ID)
	close(ls.Ended)
}

// Next is when the first lease expires. It returns false if there is none.
func (l *Lessor) Next() (first time.Time, found bool) {
	for _, ls := range l.Leases {
		if !found || ls.Expires.Before(first) {
			first, found = ls.Expires, true
		}
	}
	return first, found
}

// Expired returns the leases that have expired, the longest overdue first.
func (l *Lessor) Expired(now time.Time) []*lease {
	var out []*lease
	for _, ls := range l.Leases {
		if !now.Before(ls.Expires) {
			out = append(out, ls)
		}
	}
	slices.SortFunc(out, byExpiry)
	return out
}

// Sorted returns all leases, the next to expire first.
func (l *Lessor) Sorted() []*lease {
	return slices.SortedFunc(maps.Values(l.Leases), byExpiry)
}

func byExpiry(a, b *lease) int {
	if c := a.Expires.Compare(b.Expires); c != 0 {
		return c
	}
	return cmp.Compare(a.ID, b.ID)
}

func (ls *lease) SortedKeys() []string { return slices.Sorted(maps.Keys(ls.keys)) }

// Clone copies the leases as a backup would, with their keys but without times.
func (l *Lessor) Clone() *Lessor {
	c := NewLessor(l.minTTL)
	c.Rate = l.Rate
	c.owner = maps.Clone(l.owner)
	for id, ls := range l.Leases {
		c.Leases[id] = &lease{
			ID: id, TTL: ls.TTL, Expires: ls.Expires,
			keys: maps.Clone(ls.keys), Ended: make(chan struct{}),
		}
	}
	return c
}
