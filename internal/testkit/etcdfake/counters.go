package etcdfake

import (
	"maps"
	"sync"
)

// Counts are messages by method. They count requests and answers of a unary method, and each
// message of a stream. Errors are no messages.
type Counts struct {
	Received map[string]int // by members, lost ones included
	Sent     map[string]int // by members
	Opened   map[string]int // streams
}

// counters are the Counts of one member.
type counters struct {
	mu                     sync.Mutex
	received, sent, opened map[string]int
}

func (c *counters) init() {
	c.received, c.sent, c.opened = map[string]int{}, map[string]int{}, map[string]int{}
}

func (c *counters) add(to *map[string]int, method string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	(*to)[method]++
}

func (c *counters) snapshot() Counts {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Counts{maps.Clone(c.received), maps.Clone(c.sent), maps.Clone(c.opened)}
}

// Counts are those of this member since the cluster began.
func (m *Member) Counts() Counts { return m.counts.snapshot() }

// Counts are those of all members together, since the cluster began.
func (c *Cluster) Counts() Counts {
	sum := Counts{map[string]int{}, map[string]int{}, map[string]int{}}
	for _, m := range c.members {
		n := m.Counts()
		accumulate(sum.Received, n.Received, 1)
		accumulate(sum.Sent, n.Sent, 1)
		accumulate(sum.Opened, n.Opened, 1)
	}
	return sum
}

// Since is what was counted after before was taken. Methods without any are left out.
func (n Counts) Since(before Counts) Counts {
	d := Counts{maps.Clone(n.Received), maps.Clone(n.Sent), maps.Clone(n.Opened)}
	for _, p := range []struct{ to, from map[string]int }{
		{d.Received, before.Received}, {d.Sent, before.Sent}, {d.Opened, before.Opened},
	} {
		accumulate(p.to, p.from, -1)
		maps.DeleteFunc(p.to, func(_ string, n int) bool { return n == 0 })
	}
	return d
}

func accumulate(to, from map[string]int, factor int) {
	for k, v := range from {
		to[k] += factor * v
	}
}
