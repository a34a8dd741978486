package shards

import (
	"cmp"
	"encoding/binary"
	"hash/fnv"
	"math"
	"slices"
)

// A Candidate is a member as a plan sees it.
type Candidate struct {
	Lease  int64
	Weight int  // if below 1, it gets no shard
	Cannot Set  // the shards that it cannot take
	Fixed  bool // it keeps what it has, and gets no more
	Most   int  // unless 0, how many it gets at most, whatever its weight
}

// Nobody is the owner of a shard that no member has, or that no member can take.
const Nobody = -1

// Plan distributes the shards of name among all. owners[i] is the index in all of shard i's present
// owner, or Nobody. The result has, in the same form, the planned owners. Loads are within one of the
// weights' shares, as far as Cannot allows, and no plan with such loads moves fewer shards. Ties are
// decided by a hash of name and lease, so that the odd shards of many small names do not all go to one
// worker. Equal arguments have equal results, whatever the order of all.
//
// The shards in light are nobody's load, so that no other shard moves for them. Those of them that
// rest get no new owner.
func Plan(name string, all []Candidate, owners []int, light, rest Set) []int {
	p := newPlan(name, all, owners, light)
	p.quotas()
	p.shed()
	p.fill()
	p.spread(rest)
	return p.to
}

// plan is a plan in the making.
type plan struct {
	all    []Candidate
	hashes []uint64 // of all
	order  []int    // of all, by hash
	to     []int
	light  Set
	has    []int // how many shards that are not light each has in to
	quota  []int
	full   []bool // exchange found that no chain leads from the member to one below its quota
}

func newPlan(name string, all []Candidate, owners []int, light Set) *plan {
	p := &plan{all: all, light: light, to: slices.Clone(owners), has: make([]int, len(all)), quota: make([]int, len(all)), full: make([]bool, len(all))}
	p.hashes = make([]uint64, len(all))
	for m, c := range all {
		h := fnv.New64a()
		_, _ = h.Write([]byte(name))
		_, _ = h.Write(binary.BigEndian.AppendUint64(nil, uint64(c.Lease)))
		p.hashes[m] = mix(h.Sum64())
		p.order = append(p.order, m)
	}
	slices.SortFunc(p.order, func(a, b int) int {
		return cmp.Or(cmp.Compare(p.hashes[a], p.hashes[b]), cmp.Compare(all[a].Lease, all[b].Lease))
	})
	for i, m := range p.to {
		if m >= 0 && m < len(all) && !all[m].Cannot.Has(i) && (all[m].Weight > 0 || all[m].Fixed) {
			p.count(i, m, 1)
		} else {
			p.to[i] = Nobody
		}
	}
	return p
}

// count adds d to how many shards m has, if i is not light.
func (p *plan) count(i, m, d int) {
	if !p.light.Has(i) {
		p.has[m] += d
	}
}

// mix spreads the differences of h over all of its bits (the finalizer of MurmurHash3).
func mix(h uint64) uint64 {
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// quotas computes how many shards each member should have. It is the share rounded down, and one more
// for some members: first those that have more than that already, then those whose share has the
// largest fraction, and then in the order of the hash.
func (p *plan) quotas() {
	n, weights := len(p.to)-p.light.Len(), 0
	for m, c := range p.all {
		if c.Fixed {
			p.quota[m] = p.has[m]
			n -= p.has[m]
		}
	}
	for m, c := range p.all {
		switch {
		case c.Fixed || c.Weight <= 0:
		case c.Most > 0:
			p.quota[m] = min(c.Most, n)
			n -= p.quota[m]
		default:
			weights += c.Weight
		}
	}
	if weights == 0 {
		return
	}
	rest := n
	var odd []int // those whose share is not whole
	for _, m := range p.order {
		if c := p.all[m]; !c.Fixed && c.Weight > 0 && c.Most == 0 {
			p.quota[m] = n * c.Weight / weights
			rest -= p.quota[m]
			if n*c.Weight%weights != 0 {
				odd = append(odd, m)
			}
		}
	}
	has := func(m int) int { return min(max(p.has[m]-p.quota[m], 0), 1) } // 1 if it has more than the share rounded down
	fraction := func(m int) int { return n * p.all[m].Weight % weights }
	slices.SortStableFunc(odd, func(a, b int) int {
		return cmp.Or(cmp.Compare(has(b), has(a)), cmp.Compare(fraction(b), fraction(a)))
	})
	for _, m := range odd[:rest] {
		p.quota[m]++
	}
}

// shed takes from each member what it has above its quota. It takes the highest shards, so that wishes
// stay ranges.
func (p *plan) shed() {
	for i := len(p.to) - 1; i >= 0; i-- {
		if m := p.to[i]; m != Nobody && p.has[m] > p.quota[m] && !p.light.Has(i) {
			p.to[i] = Nobody
			p.has[m]--
		}
	}
}

// fill gives the shards that nobody has to members below their quota, in the order of the hash. For
// shards that none of those can take it tries exchange and exceed.
func (p *plan) fill() {
	var left []int
	next := 0
	for i, m := range p.to {
		if m != Nobody || p.light.Has(i) {
			continue
		}
		for next < len(p.order) && p.room(p.order[next]) <= 0 {
			next++
		}
		taken := false
		for _, m := range p.order[next:] {
			if taken = p.room(m) > 0 && p.can(m, i); taken {
				p.give(i, m)
				break
			}
		}
		if !taken {
			left = append(left, i)
		}
	}
	for _, i := range left {
		if !p.exchange(i) {
			p.exceed(i)
		}
	}
}

// room is how many shards m is below its quota.
func (p *plan) room(m int) int { return p.quota[m] - p.has[m] }

// can reports whether m may get shard i.
func (p *plan) can(m, i int) bool {
	c := &p.all[m]
	return c.Weight > 0 && !c.Fixed && !c.Cannot.Has(i)
}

// may reports whether m may have more than its quota.
func (p *plan) may(m int) bool { return p.all[m].Most == 0 }

func (p *plan) give(i, m int) {
	if old := p.to[i]; old != Nobody {
		p.count(i, old, -1)
	}
	p.to[i] = m
	p.count(i, m, 1)
}

// exchange gives shard i to a member that can take it and gives one of its shards to another, and so on
// up to a member below its quota. It uses the shortest such chain, and returns false if there is none.
// In that case no chain will ever lead from the members that were reached, because all that can take
// one of their shards are among them. This stays so when one of them gets i, because all that can take
// i are among them too.
func (p *plan) exchange(i int) bool {
	type step struct{ m, shard, from int } // m gets shard from the member in step from
	var steps []step
	seen := make([]bool, len(p.all))
	reach := func(shard, from int) {
		for _, m := range p.order {
			if !seen[m] && !p.full[m] && p.can(m, shard) {
				seen[m] = true
				steps = append(steps, step{m, shard, from})
			}
		}
	}
	reach(i, Nobody)
	for at := 0; at < len(steps); at++ {
		if p.room(steps[at].m) > 0 {
			for s := at; s != Nobody; s = steps[s].from {
				p.give(steps[s].shard, steps[s].m)
			}
			return true
		}
		for j, m := range p.to {
			if m == steps[at].m && !p.light.Has(j) {
				reach(j, at)
			}
		}
	}
	for _, s := range steps {
		p.full[s.m] = true
	}
	return false
}

// exceed gives shard i to the member that can take it and would have the fewest shards for its weight.
func (p *plan) exceed(i int) {
	best, least := Nobody, math.Inf(1)
	for _, m := range p.order {
		if load := float64(p.has[m]+1) / float64(p.all[m].Weight); p.can(m, i) && p.may(m) && load < least {
			best, least = m, load
		}
	}
	if best != Nobody {
		p.give(i, best)
	}
}

// spread gives each light shard that has nobody, and does not rest, to the member that can take it and
// has the fewest light ones.
func (p *plan) spread(rest Set) {
	has := make([]int, len(p.all))
	for i := range p.light.All() {
		if m := p.to[i]; m != Nobody {
			has[m]++
		}
	}
	for i := range p.light.All() {
		if p.to[i] != Nobody || rest.Has(i) {
			continue
		}
		best := Nobody
		for _, m := range p.order {
			if p.can(m, i) && p.may(m) && (best == Nobody || has[m] < has[best]) {
				best = m
			}
		}
		if best != Nobody {
			p.give(i, best)
			has[best]++
		}
	}
}
