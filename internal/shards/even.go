package shards

import (
	"cmp"
	"math"
	"slices"
)

// even moves shards until no member is outside of the band. Each move lowers the higher of the two that
// it is between, so this ends.
func (b *ByLoad) even() {
	for {
		switch high, low := b.extremes(); {
		case high != Nobody && b.ratio(high) > b.upper()*b.limit(high):
			if b.relieve(high) {
				b.on = true
			} else {
				b.stuck[high] = true
			}
		case low != Nobody && b.ratio(low) < b.lower()*b.level:
			if b.supply(low) {
				b.on = true
			} else {
				b.skipped[low] = true
			}
		case b.changed:
			b.changed = false
			clear(b.stuck)
			clear(b.skipped)
		default:
			return
		}
	}
}

func (b *ByLoad) upper() float64 {
	if b.on {
		return b.Inner
	}
	return b.Edge
}

func (b *ByLoad) lower() float64 {
	if b.on {
		return down
	}
	return edgeDown
}

// extremes are the member that is highest above its limit, unless it is stuck, and the one that has the
// least, unless it is to be skipped.
func (b *ByLoad) extremes() (high, low int) {
	high, low = Nobody, Nobody
	highest, lowest := 0.0, math.Inf(1)
	for _, m := range b.pool {
		b.Looked++
		r := b.ratio(m)
		if over := r / b.limit(m); !b.stuck[m] && over > highest {
			high, highest = m, over
		}
		if !b.skipped[m] && r < lowest {
			low, lowest = m, r
		}
	}
	return high, low
}

// relieve moves a shard from member h to the member that has the least and can take it, or exchanges one.
func (b *ByLoad) relieve(h int) bool {
	any := b.lightest(h, func(int) bool { return true })
	if i, m := b.choose(h, func(i int) int {
		if any == Nobody || b.can(any, i) {
			return any
		}
		return b.lightest(h, func(m int) bool { return b.can(m, i) })
	}); i != Nobody {
		b.move(i, m)
		return true
	}
	return b.exchange(h) || b.trade(h)
}

// lightest is the member with the least load that has room for a shard of h, and can take it; or Nobody.
func (b *ByLoad) lightest(h int, can func(m int) bool) int {
	best := Nobody
	for _, m := range b.pool {
		b.Looked++
		if m != h && b.has[m] < b.most[m] && (best == Nobody || b.ratio(m) < b.ratio(best)) && can(m) {
			best = m
		}
	}
	return best
}

// supply moves a shard to member l from the one with the most that can give it one.
func (b *ByLoad) supply(l int) bool {
	if b.has[l] >= b.most[l] {
		return false
	}
	donors := slices.Clone(b.pool)
	slices.SortStableFunc(donors, func(x, y int) int { return cmp.Compare(b.ratio(y), b.ratio(x)) })
	for _, d := range donors {
		if b.ratio(d) <= b.ratio(l) {
			break
		}
		if i, _ := b.choose(d, func(i int) int {
			if b.can(l, i) {
				return l
			}
			return Nobody
		}); i != Nobody {
			b.move(i, l)
			return true
		}
	}
	return false
}

// choose is the shard of member h to give to the member that to returns for it: the heaviest that leaves
// both within the inner band, or else the one after which the higher of the two is lowest. Either has to
// lower the higher of the two by half of the shard's load at least, so that what is as even as the shards
// allow stays as it is.
func (b *ByLoad) choose(h int, to func(i int) int) (shard, member int) {
	shard, member = Nobody, Nobody
	lowest := math.Inf(1)
	for _, i := range b.mine[h] {
		b.Looked++
		x := b.Load[i]
		if x == 0 {
			break
		}
		if b.Cool.Has(i) {
			continue
		}
		m := to(i)
		if m == Nobody {
			continue
		}
		rest, more := b.with(h, -x), b.with(m, x)
		higher := max(rest, more)
		switch {
		case max(b.ratio(h), b.ratio(m))-higher < x/2/float64(b.all[h].Weight):
		case rest >= down*b.level && more <= up*b.level:
			return i, m
		case higher < lowest:
			shard, member, lowest = i, m, higher
		}
	}
	return shard, member
}

// exchange gives a shard of member h to the one that has the least, and gets a lighter one for it.
func (b *ByLoad) exchange(h int) bool {
	l := h
	for _, m := range b.pool {
		if b.Looked++; b.ratio(m) < b.ratio(l) {
			l = m
		}
	}
	if l == h {
		return false
	}
	theirs := slices.DeleteFunc(slices.Clone(b.mine[l]), func(j int) bool { return b.Cool.Has(j) || !b.can(h, j) })
	if len(theirs) == 0 {
		return false
	}
	wh, wl := float64(b.all[h].Weight), float64(b.all[l].Weight)
	ideal := (b.sum[h]*wl - b.sum[l]*wh) / (wh + wl)
	give, get, lowest := Nobody, Nobody, math.Inf(1)
	for _, i := range b.mine[h] {
		b.Looked++
		if b.Cool.Has(i) || !b.can(l, i) {
			continue
		}
		at, _ := slices.BinarySearchFunc(theirs, b.Load[i]-ideal, func(j int, x float64) int { return cmp.Compare(x, b.Load[j]) })
		for _, j := range theirs[max(at-1, 0):min(at+1, len(theirs))] {
			d := b.Load[i] - b.Load[j]
			higher := max(b.with(h, -d), b.with(l, d))
			if gain := b.ratio(h) - higher; d > 0 && gain >= max(d/2/wh, atLeast*b.level) && higher < lowest {
				give, get, lowest = i, j, higher
			}
		}
	}
	if give == Nobody {
		return false
	}
	b.move(get, h)
	b.move(give, l)
	return true
}

// The bounds of a trade: how many of a member's heaviest shards are tried, and for how many others one of
// them goes at most.
const (
	tradesOf  = 16
	tradesFor = 8
)

// trade gives one of the heaviest shards of member h to another member, and gets several light ones for it.
func (b *ByLoad) trade(h int) bool {
	others := slices.DeleteFunc(slices.Clone(b.pool), func(m int) bool { return m == h || b.ratio(m) >= b.ratio(h) })
	slices.SortStableFunc(others, func(x, y int) int { return cmp.Compare(b.ratio(x), b.ratio(y)) })
	wh := float64(b.all[h].Weight)
	for _, l := range others {
		wl := float64(b.all[l].Weight)
		ideal := (b.sum[h]*wl - b.sum[l]*wh) / (wh + wl)
		give, lowest := Nobody, math.Inf(1)
		var get []int
		for _, i := range b.mine[h][:min(tradesOf, len(b.mine[h]))] {
			if b.Cool.Has(i) || !b.can(l, i) {
				continue
			}
			several, sum := b.several(l, h, b.Load[i]-ideal)
			d := b.Load[i] - sum
			higher := max(b.with(h, -d), b.with(l, d))
			if gain := b.ratio(h) - higher; len(several) > 0 && gain >= max(d/2/wh, atLeast*b.level) && higher < lowest {
				give, get, lowest = i, several, higher
			}
		}
		if give != Nobody {
			for _, j := range get {
				b.move(j, h)
			}
			b.move(give, l)
			return true
		}
	}
	return false
}

// several are shards of member l for member h that have a load of most together, or somewhat less.
func (b *ByLoad) several(l, h int, most float64) (all []int, sum float64) {
	for _, j := range b.mine[l] {
		b.Looked++
		if x := b.Load[j]; x > 0 && sum+x <= most && !b.Cool.Has(j) && b.can(h, j) && b.has[h]+len(all) <= b.most[h] {
			all, sum = append(all, j), sum+x
		}
		if len(all) == tradesFor {
			break
		}
	}
	return all, sum
}
