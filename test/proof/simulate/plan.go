package simulate

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// Plan is what a seed decides.
type Plan struct {
	Seed    uint64
	Clients int
	Names   int // that they want
	Slotted int // by bits, which of the names are semaphores
	Workers int // of shards, beside them; 0 in most scenarios
	Shards  int // that these share out
	Members int
	Busy    bool // somebody writes an unrelated key before each request that arrives
	TTL     time.Duration
	Terms                 // of the clients' sessions and locks
	Lasts   time.Duration // all faults begin within it; the clients act until the last has ended
	Strikes []Strike
}

// Strike is a fault, and when it strikes.
type Strike struct {
	At     time.Duration
	Lasts  time.Duration
	Kind   string
	Member int
	Client int
	N      int // another parameter of the kind
}

// String is the strike on one line.
func (s Strike) String() string {
	return fmt.Sprintf("%v for %v: %s, member %d, client %d, %d", s.At, s.Lasts, s.Kind, s.Member, s.Client, s.N)
}

// String is the plan, a line for each strike.
func (p Plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: %d clients, %d names, semaphores %b, %d workers of %d shards, %d members, busy %v, TTL %v, %+v, %v\n", p.Seed, p.Clients, p.Names, p.Slotted, p.Workers, p.Shards, p.Members, p.Busy, p.TTL, p.Terms, p.Lasts)
	for _, s := range p.Strikes {
		fmt.Fprintln(&b, "\t", s)
	}
	return b.String()
}

// Make makes the plan for a seed, with faults of these kinds.
func Make(seed uint64, kinds []string) Plan {
	r := rand.New(rand.NewPCG(seed, 1))
	// The last TTL costs as much as six of the others: for more than an hour, each watch is
	// probed every five seconds.
	ttls := []time.Duration{3, 3, 3, 3, 5, 5, 5, 5, 10, 10, 10, 15, 15, 60, 60, 300}
	p := Plan{Seed: seed, Clients: 2 + r.IntN(4), Names: []int{1, 1, 2, 3}[r.IntN(4)], Members: 1 + 2*r.IntN(3), TTL: ttls[r.IntN(len(ttls))] * time.Second}
	p.Lasts = 12 * p.TTL
	for range 3 + r.IntN(10) {
		p.Strikes = append(p.Strikes, Strike{
			At:     between(r, 0, p.Lasts),
			Lasts:  lasting(r, p.TTL),
			Kind:   kinds[r.IntN(len(kinds))],
			Member: r.IntN(p.Members),
			Client: r.IntN(p.Clients),
			N:      r.IntN(1 << 20),
		})
	}
	for i := range p.Names {
		if r.IntN(5) < 2 {
			p.Slotted |= 1 << i
		}
	}
	if r := rand.New(rand.NewPCG(seed, 2)); r.IntN(4) == 0 {
		p.Workers, p.Shards = 2+r.IntN(3), 1+r.IntN(6)
	}
	p.Busy, p.Terms = seed%2 == 0, termsOf(seed, p.TTL)
	return p
}

// semaphore reports whether the i-th name is used as a semaphore.
func (p Plan) semaphore(i int) bool { return p.Slotted>>i&1 == 1 }

// lasting is short, about as long as renewals are apart, or longer than a TTL.
func lasting(r *rand.Rand, ttl time.Duration) time.Duration {
	switch r.IntN(6) {
	case 0:
		return between(r, ttl, 2*ttl)
	case 1, 2:
		return between(r, ttl/8, ttl)
	default:
		return between(r, time.Millisecond, ttl/4)
	}
}

func between(r *rand.Rand, from, to time.Duration) time.Duration {
	return from + time.Duration(r.Int64N(int64(to-from)+1))
}
