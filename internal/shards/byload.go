package shards

import (
	"cmp"
	"slices"
)

// The bounds of a plan by load, as parts of the level. Above the upper edge of the outer band, or below
// its lower one, a worker is a reason to move shards. Then they move until all are within the inner
// band.
const (
	edgeUp, edgeDown = 1.20, 0.50
	up, down         = 1.10, 0.90
	atLeast          = 0.05 // what an exchange of two shards has to gain
	mostShards       = 4    // how many times its share by number a worker gets
)

// A ByLoad is a plan that evens out loads instead of numbers.
type ByLoad struct {
	Load []float64 // of each shard
	Cool Set       // the shards that do not move for their load
	Edge float64   // the upper edge of the outer band; 0 means edgeUp
	// Inner is the upper edge of the inner band; 0 means up.
	Inner float64

	Moved  Set // the shards that the plan has moved for their load
	Looked int // at how many shards and members it has looked

	*plan
	sum     []float64 // the load of each member
	mine    [][]int   // the shards of each member, the heaviest first
	most    []int     // how many shards each member gets at most
	pool    []int     // the members that share out the load, in the order of the hash
	level   float64
	stuck   []bool // no shard of the member can move
	skipped []bool // no shard can move to the member
	changed bool   // something has moved since those were cleared
	on      bool   // something has to move
	from    []int  // the owners before shards moved for their load
}

// Plan distributes the shards of name among all, as the function Plan does, by their loads. Members get
// load in the proportion of their weights. Shards without an owner go to whoever has the least. Others
// move only if a member is outside of the outer band around the level, which is what each would have if
// no shard were heavier than a share: then until all are within the inner one, or have their heaviest
// shard alone above it. Equal arguments have equal results, whatever the order of all.
func (b *ByLoad) Plan(name string, all []Candidate, owners []int, light, rest Set) []int {
	b.begin(name, all, owners, light)
	b.trials()
	b.place()
	b.level = b.levelOf()
	b.from = slices.Clone(b.to)
	if b.level > 0 {
		b.even()
	}
	b.spread(rest)
	for i, m := range b.from {
		if m != b.to[i] && m != Nobody {
			b.Moved.Add(i)
		}
	}
	return b.to
}

func (b *ByLoad) begin(name string, all []Candidate, owners []int, light Set) {
	b.plan = newPlan(name, all, owners, light)
	b.Edge, b.Inner = cmp.Or(b.Edge, edgeUp), cmp.Or(b.Inner, up)
	k := len(all)
	b.sum, b.mine, b.most = make([]float64, k), make([][]int, k), make([]int, k)
	b.stuck, b.skipped = make([]bool, k), make([]bool, k)
	weights := 0
	for _, m := range b.order {
		if c := all[m]; c.Weight > 0 && !c.Fixed && c.Most == 0 {
			b.pool = append(b.pool, m)
			weights += c.Weight
		}
	}
	n := len(b.to) - b.light.Len()
	for _, m := range b.pool {
		b.most[m] = max((mostShards*n*all[m].Weight+weights-1)/weights, 1)
	}
	for i, m := range b.to {
		if m != Nobody && !b.light.Has(i) {
			b.mine[m] = append(b.mine[m], i)
			b.sum[m] += b.Load[i]
		}
	}
	for _, mine := range b.mine {
		slices.SortFunc(mine, b.heavier)
	}
}

// heavier orders shards by their loads, the heaviest first. Ties are in the order of a hash.
func (b *ByLoad) heavier(i, j int) int {
	b.Looked++
	if c := cmp.Compare(b.Load[j], b.Load[i]); c != 0 {
		return c
	}
	return cmp.Or(cmp.Compare(mix(uint64(i)), mix(uint64(j))), cmp.Compare(i, j))
}

// ratio is the load of member m for its weight.
func (b *ByLoad) ratio(m int) float64 { return b.with(m, 0) }

// with is the ratio of member m if it had x more.
func (b *ByLoad) with(m int, x float64) float64 {
	return (b.sum[m] + x) / float64(b.all[m].Weight)
}

// limit is what the bounds of a member are for: the level, or its heaviest shard.
func (b *ByLoad) limit(m int) float64 {
	if len(b.mine[m]) == 0 {
		return b.level
	}
	return max(b.level, b.Load[b.mine[m][0]]/float64(b.all[m].Weight))
}

// move gives shard i to member m.
func (b *ByLoad) move(i, m int) {
	if old := b.to[i]; old != Nobody {
		b.sum[old] -= b.Load[i]
		at, _ := slices.BinarySearchFunc(b.mine[old], i, b.heavier)
		b.mine[old] = slices.Delete(b.mine[old], at, at+1)
	}
	b.give(i, m)
	b.sum[m] += b.Load[i]
	at, _ := slices.BinarySearchFunc(b.mine[m], i, b.heavier)
	b.mine[m] = slices.Insert(b.mine[m], at, i)
	b.changed = true
}

// trials gives each member that is on trial as many shards as it may have, which are the lightest that it
// can take: those without an owner, and otherwise those of the member that has the most.
func (b *ByLoad) trials() {
	for _, m := range b.order {
		c := b.all[m]
		if c.Most == 0 || c.Weight <= 0 || c.Fixed {
			continue
		}
		for b.has[m] > c.Most {
			b.drop(b.mine[m][0])
		}
		for b.has[m] < c.Most {
			i := b.lightestFor(m)
			if i == Nobody {
				break
			}
			b.move(i, m)
		}
	}
}

// drop takes shard i from its owner.
func (b *ByLoad) drop(i int) {
	m := b.to[i]
	b.sum[m] -= b.Load[i]
	b.mine[m] = slices.DeleteFunc(b.mine[m], func(j int) bool { return j == i })
	b.count(i, m, -1)
	b.to[i] = Nobody
}

// lightestFor is the shard that a member on trial gets, or Nobody.
func (b *ByLoad) lightestFor(m int) int {
	from := slices.MaxFunc(append([]int{m}, b.pool...), func(x, y int) int { return cmp.Compare(b.ratio(x), b.ratio(y)) })
	best := Nobody
	for i, owner := range b.to {
		if b.light.Has(i) || !b.can(m, i) || owner == m || owner != Nobody && (owner != from || b.Cool.Has(i)) {
			continue
		}
		if best == Nobody || owner == Nobody && b.to[best] != Nobody || (owner == Nobody) == (b.to[best] == Nobody) && b.heavier(best, i) < 0 {
			best = i
		}
	}
	return best
}

// place gives the shards without an owner to those that have the least, the heaviest first.
func (b *ByLoad) place() {
	var left []int
	for i, m := range b.to {
		if m == Nobody && !b.light.Has(i) {
			left = append(left, i)
		}
	}
	slices.SortFunc(left, b.heavier)
	for _, i := range left {
		m := b.least(i, true)
		if m == Nobody {
			m = b.least(i, false)
		}
		if m != Nobody {
			b.move(i, m)
		}
	}
}

// least is the member that would have the least load with shard i, or Nobody. Of several it is the one
// with the fewest shards. If bounded, it has room by number.
func (b *ByLoad) least(i int, bounded bool) int {
	best := Nobody
	less := func(m int) bool {
		x := b.Load[i]
		if c := cmp.Or(cmp.Compare(b.with(m, x), b.with(best, x)), cmp.Compare(b.has[m], b.has[best])); c != 0 {
			return c < 0
		}
		return mix(b.hashes[m]^uint64(i)) < mix(b.hashes[best]^uint64(i))
	}
	for _, m := range b.pool {
		b.Looked++
		if b.can(m, i) && (!bounded || b.has[m] < b.most[m]) && (best == Nobody || less(m)) {
			best = m
		}
	}
	return best
}

// levelOf is the mean load for a unit of weight of what is left when each shard that is heavier than such
// a share is set aside, with a worker for itself.
func (b *ByLoad) levelOf() float64 {
	total, weight := 0.0, 0.0
	var all []int
	for _, m := range b.pool {
		weight += float64(b.all[m].Weight)
	}
	for i, m := range b.to {
		if m != Nobody && !b.light.Has(i) && b.all[m].Weight > 0 && !b.all[m].Fixed && b.all[m].Most == 0 {
			total += b.Load[i]
			all = append(all, i)
		}
	}
	if total == 0 {
		return 0
	}
	each := weight / float64(len(b.pool))
	slices.SortFunc(all, b.heavier)
	for _, i := range all {
		if weight <= 1.5*each || b.Load[i] <= total/weight*each {
			break
		}
		total -= b.Load[i]
		weight -= each
	}
	return total / weight
}
