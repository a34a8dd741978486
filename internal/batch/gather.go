package batch

import (
	"slices"
	"time"

	"github.com/pawl-locks/pawl/internal/cluster"
)

// The bounds of a request (rule G5).
const (
	mostParts = 32
	mostBytes = 128 << 10
	mostOps   = 128 // etcd's default of --max-txn-ops, which applies to each level
)

// limits are how large a request may be, according to the server.
type limits struct{ parts, bytes, ops int }

// A part is a write that waits to be sent in a request with others.
type part struct {
	Write
	size    int
	writes  bool // it contains a put
	waiting bool // it has not been sent, so it can be removed

	decided chan struct{} // closed once verdict is set
	verdict verdict
}

// decide delivers the part's only verdict.
func (p *part) decide(v verdict) {
	p.verdict = v
	close(p.decided)
}

// gather holds the writes that wait to be sent. It is pure.
//
// Invariants: queues has the kinds of all parts' queues, and no queue of an Ordered part is
// also another part's (rule G2); bytes is the sum and ops the maximum of the parts'.
type gather struct {
	parts  []*part
	queues map[string]Kind
	bytes  int
	ops    int
	since  time.Time // when the first part joined
	ahead  int       // how many tries the first part waits for at most
	passed int       // tries that have ended since the first part joined
}

// admits reports whether w, with size bytes, may join. The request must stay within limits. separate
// says that puts and deletions must not share a request.
func (g *gather) admits(w *Write, size int, writes, separate bool, l limits) bool {
	n := len(g.parts) + 1
	switch {
	case n > l.parts, g.bytes+size > l.bytes, n+max(g.ops, w.ops()) > l.ops:
		return false
	case separate && len(g.parts) > 0 && g.parts[0].writes != writes:
		return false
	}
	return !w.any(func(queue string) bool { // rule G2
		there, taken := g.queues[queue]
		return taken && (there != Plain || w.Kind != Plain)
	})
}

// add adds p, which admits has admitted. busy is how many tries are under way.
func (g *gather) add(p *part, busy int, now time.Time) {
	if len(g.parts) == 0 {
		g.since, g.passed = now, 0
		g.ahead = min(busy, mostInflight)
	}
	p.waiting = true
	g.parts = append(g.parts, p)
	g.count(p)
}

func (g *gather) count(p *part) {
	if g.queues == nil {
		g.queues = make(map[string]Kind)
	}
	g.bytes += p.size
	g.ops = max(g.ops, p.ops())
	p.any(func(queue string) bool {
		g.queues[queue] = p.Kind
		return false
	})
}

// remove removes p. It returns false if p was sent already.
func (g *gather) remove(p *part) bool {
	if !p.waiting {
		return false
	}
	p.waiting = false
	g.parts = slices.DeleteFunc(g.parts, func(other *part) bool { return other == p })
	g.bytes, g.ops = 0, 0
	clear(g.queues)
	for _, rest := range g.parts {
		g.count(rest)
	}
	return true
}

// take removes and returns all parts.
func (g *gather) take() (parts []*part) {
	parts = g.parts
	for _, p := range parts {
		p.waiting = false
	}
	g.parts, g.bytes, g.ops = nil, 0, 0
	clear(g.queues)
	return parts
}

// newPart makes w a part that waits.
func newPart(w Write, size int, writes bool) *part {
	return &part{Write: w, size: size, writes: writes, decided: make(chan struct{})}
}

// repeat returns when a request of these parts is sent again. It is after any failure if each of them
// may be.
func repeat(parts []*part) cluster.Repeat {
	if slices.ContainsFunc(parts, func(p *part) bool { return p.Repeat != cluster.Always }) {
		return cluster.IfNotApplied
	}
	return cluster.Always
}
