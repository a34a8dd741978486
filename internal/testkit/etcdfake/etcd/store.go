package etcd

import (
	"math"
	"slices"
	"sort"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/pawl-locks/pawl/internal/etcdapi"
)

// Store holds the keys with all their versions since the last compaction.
// It knows nothing of leases, members or time.
//
// Invariants: the versions of a key ascend in mod; live is the sorted set of keys whose last
// version is not dead; log holds every change, starting at revision compacted, in order.
type Store struct {
	Rev       int64 // of the last change; 1 if nothing was ever written
	Compacted int64 // reads below it are refused; -1 before the first compaction
	items     map[string][]version
	live      []string
	log       []change
}

// version is what one key became at revision mod.
type version struct {
	mod, create, ver, lease int64
	value                   []byte
	dead                    bool
}

// change is one event of the log, shared by all that read it. Nothing alters it.
type change struct {
	Rev   int64
	Event *mvccpb.Event
}

// NewStore returns an empty Store at revision 1.
func NewStore() *Store {
	return &Store{Rev: 1, Compacted: -1, items: map[string][]version{}}
}

// At returns what key was at revision rev.
func (s *Store) At(key string, rev int64) (version, bool) {
	vs := s.items[key]
	for i := len(vs) - 1; i >= 0; i-- {
		if vs[i].mod <= rev {
			return vs[i], !vs[i].dead
		}
	}
	return version{}, false
}

// Keys returns the keys of [key, end) that existed at rev, sorted. end has the meaning it has in a
// RangeRequest.
func (s *Store) Keys(key, end string, rev int64) []string {
	if end == "" {
		if _, ok := s.At(key, rev); ok {
			return []string{key}
		}
		return nil
	}
	if rev >= s.Rev {
		lo, hi := bounds(s.live, key, end)
		return s.live[lo:hi]
	}
	var found []string
	for k := range s.items {
		if InRange(k, key, end) {
			if _, ok := s.At(k, rev); ok {
				found = append(found, k)
			}
		}
	}
	slices.Sort(found)
	return found
}

// put writes one version at revision rev, which the caller commits later.
func (s *Store) put(rev int64, key string, value []byte, lease int64) *mvccpb.Event {
	v := version{mod: rev, create: rev, ver: 1, lease: lease, value: value}
	if old, ok := s.At(key, math.MaxInt64); ok {
		v.create, v.ver = old.create, old.ver+1
	} else {
		s.setLive(key, true)
	}
	s.items[key] = append(s.items[key], v)
	return &mvccpb.Event{Type: etcdapi.EventPut, Kv: v.Kv(key)}
}

// remove deletes a key that exists, at revision rev.
func (s *Store) remove(rev int64, key string) *mvccpb.Event {
	s.items[key] = append(s.items[key], version{mod: rev, dead: true})
	s.setLive(key, false)
	return &mvccpb.Event{
		Type: etcdapi.EventDelete,
		Kv:   &mvccpb.KeyValue{Key: []byte(key), ModRevision: rev},
	}
}

// commit makes the changes of revision rev the last ones.
func (s *Store) commit(rev int64, events []*mvccpb.Event) {
	s.Rev = rev
	for _, e := range events {
		s.log = append(s.log, change{Rev: rev, Event: e})
	}
}

// Since returns the changes, starting at revision rev.
func (s *Store) Since(rev int64) []change {
	return s.log[sort.Search(len(s.log), func(i int) bool { return s.log[i].Rev >= rev }):]
}

// Compact forgets what only revisions below rev can see. The changes of rev itself stay, deletions
// too, so that a watch starting at rev misses nothing.
func (s *Store) Compact(rev int64) {
	s.Compacted = rev
	s.log = slices.Clone(s.Since(rev))
	for key, vs := range s.items {
		first := len(vs) - 1
		for first > 0 && vs[first].mod > rev {
			first--
		}
		if vs[first].dead && vs[first].mod <= rev {
			first++
		}
		if first == len(vs) {
			delete(s.items, key)
		} else {
			s.items[key] = slices.Clone(vs[first:])
		}
	}
}

// Clone copies the store. It shares versions and events, which nothing alters.
func (s *Store) Clone() *Store {
	c := *s
	c.items = make(map[string][]version, len(s.items))
	for k, vs := range s.items {
		c.items[k] = slices.Clip(vs)
	}
	c.live = slices.Clone(s.live)
	c.log = slices.Clip(s.log)
	return &c
}

func (s *Store) setLive(key string, there bool) {
	i, found := slices.BinarySearch(s.live, key)
	switch {
	case there && !found:
		s.live = slices.Insert(s.live, i, key)
	case !there && found:
		s.live = slices.Delete(s.live, i, i+1)
	}
}

func (v version) Kv(key string) *mvccpb.KeyValue {
	return &mvccpb.KeyValue{
		Key: []byte(key), Value: v.value, Lease: v.lease,
		CreateRevision: v.create, ModRevision: v.mod, Version: v.ver,
	}
}

// bounds returns the part of the sorted keys that lies in [key, end).
func bounds(keys []string, key, end string) (lo, hi int) {
	lo = sort.SearchStrings(keys, key)
	if end == FromKey {
		return lo, len(keys)
	}
	return lo, max(lo, sort.SearchStrings(keys, end))
}

// FromKey as the end of a range means that it has no end.
const FromKey = "\x00"

// InRange reports whether k lies in [key, end), which is only key if end is "".
func InRange(k, key, end string) bool {
	switch end {
	case "":
		return k == key
	case FromKey:
		return k >= key
	}
	return key <= k && k < end
}
