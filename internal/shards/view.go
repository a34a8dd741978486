package shards

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/pawl-locks/pawl/internal/keys"
)

// A Reason is what makes a planner plan.
type Reason uint8

const (
	MembersChanged Reason = 1 << iota // a member came, went, leaves, is sick or well again, or has another weight
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
	By      int64 // the lease of a later member with its ID, which has its place; 0 if there is none
	Told    Loads // what Loads says; nothing if it cannot be decoded
}

// active reports whether a member may own shards.
func (m *MemberState) active() bool { return m.stays() && !m.Drained && m.By == 0 }

// stays reports whether a member is there and does not leave.
func (m *MemberState) stays() bool { return m != nil && m.There && !m.Leaving }

// before is what is known of a lease before an event.
func (v *View) before(lease int64) MemberState {
	if m := v.Members[lease]; m != nil {
		return *m
	}
	return MemberState{}
}

// A View is everything that is stored of one name, at one revision.
type View struct {
	N       int
	Rev     int64
	Members map[int64]*MemberState // by lease
	Queues  [][]QueueKey           // by shard, in the order of their creation
	Planner []QueueKey             // the candidates
	Said    Said                   // what the planner says
	Planned int64                  // the highest revision that a planner has proclaimed
	Changed int64                  // the revision of the last known change that has to be planned for

	keys     keys.Shards
	carriers map[int64]int64 // by the lease of a carrier, the member that names it
}

// NewView makes the View of n shards when nothing is stored.
func NewView(k keys.Shards, n int) *View {
	return &View{N: n, Members: map[int64]*MemberState{}, Queues: make([][]QueueKey, n), keys: k, carriers: map[int64]int64{}}
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
		v.candidate(e, k.Lease)
	case k.Kind == keys.ShardsMember && k.N == v.N:
		return v.member(k.Lease, e)
	case k.Kind == keys.ShardsWish:
		return v.wish(k.Lease, e)
	}
	return 0
}

// candidate records a key of the planner's election. The first in its queue is the planner's.
func (v *View) candidate(e Event, lease int64) {
	first := func() (key string) {
		if len(v.Planner) > 0 {
			key = v.Planner[0].Key
		}
		return key
	}
	before, said := first(), DecodeSaid(v.N, e.Value)
	enter(&v.Planner, e, lease)
	v.Planned = max(v.Planned, said.Planned)
	switch now := first(); {
	case now == e.Key && !e.Deleted:
		v.Said = said
	case now != before:
		v.Said = Said{}
	}
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
	if !bytes.Equal(m.Loads, old.Loads) {
		m.Told, _ = DecodeLoads(v.N, m.Loads) // what cannot be decoded tells nothing
	}
	v.carry(lease, old.Carriers, m.Carriers)
	if m.There && !was {
		r |= MemberCame
	}
	for _, id := range []string{old.ID, m.ID} {
		v.give(id)
	}
	if m.There != was || m.Leaving != old.Leaving || m.Drained != old.Drained || m.Weight != old.Weight || m.Health != old.Health {
		r |= MembersChanged
	}
	if !m.Cannot.Equal(old.Cannot) {
		r |= CannotChanged
	}
	v.forget(lease)
	return r
}

// carry replaces the carriers of a member.
func (v *View) carry(member int64, old, now []int64) {
	for _, lease := range old {
		if v.carriers[lease] == member {
			delete(v.carriers, lease)
		}
	}
	for _, lease := range now {
		v.carriers[lease] = member
	}
}

// MemberOf is the member whose keys are on lease: the one with that lease, or the one that names it as a
// carrier. It is lease itself if there is none.
func (v *View) MemberOf(lease int64) int64 {
	if m := v.Members[lease]; m != nil && m.There {
		return lease
	}
	if member, ok := v.carriers[lease]; ok {
		return member
	}
	return lease
}

// give gives the place that has an ID to the latest of its members that does not leave.
func (v *View) give(id string) {
	if id == "" {
		return
	}
	latest := int64(0)
	for lease, m := range v.Members {
		if l := v.Members[latest]; m.ID == id && m.stays() && (l == nil || cmp.Or(cmp.Compare(l.Create, m.Create), cmp.Compare(latest, lease)) < 0) {
			latest = lease
		}
	}
	for lease, m := range v.Members {
		if m.ID == id {
			m.By = 0
			if m.stays() && lease != latest {
				m.By = latest
			}
		}
	}
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

// Owner is the member that owns shard i as far as its queue shows it to a planner. It is the last in the
// queue that is a member's and not leaving, or the one that has its place, or 0 if there is none.
func (v *View) Owner(i int) int64 {
	for _, e := range slices.Backward(v.Queues[i]) {
		member := v.MemberOf(e.Lease)
		if m := v.Members[member]; m != nil && m.By != 0 {
			member = m.By
		}
		if v.Members[member].active() {
			return member
		}
	}
	return 0
}

// first is the member whose key is the first in the queue of shard i, as MemberOf says, or 0.
func (v *View) first(i int) int64 {
	if i >= v.N || len(v.Queues[i]) == 0 {
		return 0
	}
	return v.MemberOf(v.Queues[i][0].Lease)
}

// In reports whether a member has a key in the queue of shard i.
func (v *View) In(i int, member int64) bool {
	return slices.ContainsFunc(v.Queues[i], func(e QueueKey) bool { return v.MemberOf(e.Lease) == member })
}

// Share is how many shards a member's share is, among all members of the View, rounded up.
func (v *View) Share(lease int64) int {
	unfit := v.unfit(func(lease int64) Health { return v.Members[lease].Health })
	own, weights := 0, 0
	for l, m := range v.Members {
		if m.active() && unfit[l] == Well {
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

// unfit are the members that are not to have their share, by what health says of them. If they have
// more than half of all weights, there are none: then it is not the members that are sick, but what
// all of them need.
func (v *View) unfit(health func(lease int64) Health) map[int64]Health {
	unfit, bad, weights := map[int64]Health{}, 0, 0
	for lease, m := range v.Members {
		if !m.active() || m.Weight <= 0 {
			continue
		}
		weights += m.Weight
		if is := health(lease); is != Well {
			bad += m.Weight
			unfit[lease] = is
		}
	}
	if 2*bad > weights {
		return nil
	}
	return unfit
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
