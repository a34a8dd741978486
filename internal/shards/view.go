package shards

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/pawl-locks/pawl/internal/keys"
)

// A Reason is what makes a planner plan.
type Reason uint8

const (
	MembersChanged Reason = 1 << iota // a member came, went, leaves, or has another weight
	CannotChanged                     // what a member cannot take has changed
	ShardEmptied                      // a shard has neither owner nor waiter
	WishChanged                       // a wish was put or deleted
	MemberCame                        // set in addition to MembersChanged
)

// An Event is one change of one key of the name.
type Event struct {
	Key         string
	Value       []byte
	Deleted     bool
	Create, Mod int64
}

// A QueueKey is a key in a shard's queue.
type QueueKey struct {
	Key    string // whole
	Lease  int64  // 0 for a foreign key
	Create int64
}

// A MemberState is what a View knows of one lease.
type MemberState struct {
	Member
	There   bool // its member key exists, and can be decoded
	Create  int64
	Mod     int64 // of its member key; 0 if it has none
	Wish    Set
	WishMod int64 // 0 if it has no wish key
}

// active reports whether a member may own shards.
func (m *MemberState) active() bool { return m != nil && m.There && !m.Leaving && !m.Drained }

// A View is everything that is stored of one name, at one revision.
type View struct {
	N       int
	Rev     int64
	Members map[int64]*MemberState // by lease
	Queues  [][]QueueKey           // by shard, in the order of their creation
	Planner []QueueKey             // the candidates
	Planned int64                  // the revision that a planner has proclaimed
	Changed int64                  // the revision of the last known change that has to be planned for

	keys keys.Shards
}

// NewView makes the View of n shards when nothing is stored.
func NewView(k keys.Shards, n int) *View {
	return &View{N: n, Members: map[int64]*MemberState{}, Queues: make([][]QueueKey, n), keys: k}
}

// Apply processes an event, and returns whether it is a reason to plan. The events are those of whole
// revisions in their order, or everything that a read returned, in any order. Events that are known
// already change nothing.
func (v *View) Apply(e Event) Reason {
	v.Rev = max(v.Rev, e.Mod)
	r := v.apply(e)
	switch {
	case r == 0 || r == WishChanged: // a wish may have been put by the planner itself
	case r&MemberCame != 0:
		v.Changed = max(v.Changed, e.Create) // what was written after it may be planned for already
	default:
		v.Changed = max(v.Changed, e.Mod)
	}
	return r
}

func (v *View) apply(e Event) Reason {
	switch k := v.keys.Parse(e.Key); {
	case k.Kind == keys.ShardsQueue && k.Shard < v.N:
		q := &v.Queues[k.Shard]
		had := len(*q)
		enter(q, e, k.Lease)
		if had > 0 && len(*q) == 0 {
			return ShardEmptied
		}
	case k.Kind == keys.ShardsPlanner:
		enter(&v.Planner, e, k.Lease)
		v.Planned = max(v.Planned, DecodePlanned(e.Value))
	case k.Kind == keys.ShardsMember && k.N == v.N:
		return v.member(k.Lease, e)
	case k.Kind == keys.ShardsWish:
		return v.wish(k.Lease, e)
	}
	return 0
}

// enter adds a key to a queue, or removes it.
func enter(q *[]QueueKey, e Event, lease int64) {
	at := slices.IndexFunc(*q, func(old QueueKey) bool { return old.Key == e.Key })
	switch {
	case e.Deleted && at >= 0:
		*q = slices.Delete(*q, at, at+1)
		if len(*q) == 0 {
			*q = nil
		}
	case !e.Deleted && at < 0:
		*q = append(*q, QueueKey{e.Key, lease, e.Create})
		slices.SortStableFunc(*q, func(a, b QueueKey) int { return cmp.Compare(a.Create, b.Create) })
	case !e.Deleted:
		(*q)[at].Create = e.Create
	}
}

// of returns the state of a lease, which it adds if there is none.
func (v *View) of(lease int64) *MemberState {
	m := v.Members[lease]
	if m == nil {
		m = &MemberState{}
		v.Members[lease] = m
	}
	return m
}

// forget drops what is known of a lease that has no keys.
func (v *View) forget(lease int64) {
	if m := v.Members[lease]; m.Mod == 0 && m.WishMod == 0 {
		delete(v.Members, lease)
	}
}

func (v *View) member(lease int64, e Event) (r Reason) {
	m := v.of(lease)
	old, was := m.Member, m.There
	m.Member, m.There, m.Create, m.Mod = Member{}, false, e.Create, 0
	if !e.Deleted {
		m.Mod = e.Mod
		if value, err := DecodeMember(v.N, e.Value); err == nil {
			m.Member, m.There = value, true
		}
	}
	if m.There && !was {
		r |= MemberCame
	}
	if m.There != was || m.Leaving != old.Leaving || m.Drained != old.Drained || m.Weight != old.Weight {
		r |= MembersChanged
	}
	if !m.Cannot.Equal(old.Cannot) {
		r |= CannotChanged
	}
	v.forget(lease)
	return r
}

func (v *View) wish(lease int64, e Event) Reason {
	m := v.of(lease)
	if e.Mod <= m.WishMod {
		return 0
	}
	m.Wish, m.WishMod = nil, 0
	if !e.Deleted {
		m.WishMod = e.Mod
		m.Wish, _ = Decode(v.N, e.Value) // a wish that cannot be decoded counts as empty
	}
	v.forget(lease)
	return WishChanged
}

// Odd compares the View with all, which are keys as a read found them, and returns the member keys and
// wish keys that differ: those of which the View has no version, or an earlier one, and those that only
// the View has. Each is returned with its modification revision in the View, or 0. Values are not
// compared.
func (v *View) Odd(all []Event) map[string]int64 {
	odd := map[string]int64{}
	for lease, m := range v.Members {
		if m.Mod != 0 {
			odd[v.keys.Member(v.N, lease)] = m.Mod
		}
		if m.WishMod != 0 {
			odd[v.keys.Wish(lease)] = m.WishMod
		}
	}
	for _, e := range all {
		k := v.keys.Parse(e.Key)
		if k.Kind != keys.ShardsWish && (k.Kind != keys.ShardsMember || k.N != v.N) {
			continue
		}
		if known := odd[e.Key]; known >= e.Mod {
			delete(odd, e.Key)
		} else {
			odd[e.Key] = known
		}
	}
	return odd
}

// Takes reports whether a member may get shards.
func (m Member) Takes() bool { return m.Weight > 0 && !m.Leaving && !m.Drained }

// Owner is the lease that owns shard i as far as its queue shows it to a planner. It is the last in the
// queue that is a member and not leaving, or 0 if there is none.
func (v *View) Owner(i int) int64 {
	for _, e := range slices.Backward(v.Queues[i]) {
		if v.Members[e.Lease].active() {
			return e.Lease
		}
	}
	return 0
}

// In reports whether a lease has a key in the queue of shard i.
func (v *View) In(i int, lease int64) bool {
	return slices.ContainsFunc(v.Queues[i], func(e QueueKey) bool { return e.Lease == lease })
}

// Share is how many shards a member's share is, among all members of the View, rounded up.
func (v *View) Share(lease int64) int {
	own, weights := 0, 0
	for l, m := range v.Members {
		if m.active() {
			weights += max(m.Weight, 0)
			if l == lease {
				own = max(m.Weight, 0)
			}
		}
	}
	if own == 0 {
		return 0
	}
	return (v.N*own + weights - 1) / weights
}

// ByAge are the leases of all members, in the order in which they joined.
func (v *View) ByAge() (all []int64) {
	for lease, m := range v.Members {
		if m.There {
			all = append(all, lease)
		}
	}
	slices.SortFunc(all, func(a, b int64) int {
		return cmp.Or(cmp.Compare(v.Members[a].Create, v.Members[b].Create), cmp.Compare(a, b))
	})
	return all
}

// EncodePlanned is the value of a planner's key, which is the revision up to which everything is
// planned for, and written.
func EncodePlanned(rev int64) []byte { return fmt.Appendf(nil, `{"planned":%d}`, rev) }

// DecodePlanned is the inverse of EncodePlanned. It returns 0 for what it cannot decode.
func DecodePlanned(value []byte) int64 {
	var p struct {
		Planned int64 `json:"planned"`
	}
	_ = json.Unmarshal(value, &p)
	return p.Planned
}
