package fencing

import (
	"sync"
	"sync/atomic"
)

// DefaultLimit is how many resources a Gate whose Limit is 0 remembers.
const DefaultLimit = 1 << 16

// A Gate is a guard in memory, for a service that owns its state: it admits a token unless a greater one was admitted for the same
// resource. The zero Gate is ready. It is safe for concurrent use, and must not be copied after its first use. A resource that
// the gate remembers is judged without a lock; only a new resource takes one.
//
// # In one step with the write
//
// Admit answers for the instant of the call. Call it under the same mutex (in the same turn of the same loop) that guards the state
// which the caller goes on to read or write; a request that is admitted, then waits for that mutex, may write after a newer holder did.
//
// # What is forgotten
//
// A gate remembers at most Limit resources, about 200 bytes and the name for each. When one more comes, it forgets one that was not asked for since
// the last sweep, and raises its floor to the highest token forgotten so far. A resource that it does not remember is
// admitted only with a token not below the floor. So a token that was refused once is refused for good: if it was below the highest of a forgotten
// resource, it is below the floor. What it costs is the other error: a holder that came before the forgotten one, and has sent nothing while Limit
// other resources were used, is refused too. It acquires the lock anew, and its new token is above the floor, provided
// that the tokens of all resources of one gate come from one counter, as those of one etcd cluster do. Use a gate for each cluster.
//
// A huge token is admitted like any other: it shuts all real holders out of its resource for good, and of every unknown resource once the gate forgets it, so authenticate
// who may state one.
//
// # Restart
//
// The zero Gate knows nothing, and admits what its predecessor refused. Restore it from a Snapshot that was saved together with the state,
// or Admit again, in order, what a log of the writes says; or, with nothing kept, acquire a lock of the service's own and call
// RefuseBelow with its token, so that every holder from before the restart has to acquire anew.
type Gate struct {
	Limit int // resources remembered; 0 or less: DefaultLimit. Set it before the first use.

	known sync.Map // resource → *highest; changed only under mu

	mu    sync.Mutex
	floor Token      // what was forgotten, and RefuseBelow; unknown resources are refused below it
	ring  []*highest // all that is known, in the order in which the sweep comes by
	hand  int
}

// A highest is the greatest token admitted for a resource. token only rises, until it becomes forgotten, once; from then on
// the entry decides nothing.
type highest struct {
	resource string
	token    atomic.Int64
	used     atomic.Bool // since the sweep came by
}

const forgotten = -1

// Admit returns nil if no token greater than t was admitted for resource, and remembers t as the highest; a *StaleError if
// there was one; an error matching ErrNoToken or ErrNoResource if t or resource cannot be used. Only a nil changes anything. It does not block
// for longer than another resource takes to be added, or a snapshot to be written.
func (g *Gate) Admit(resource string, t Token) error {
	if err := Check(resource, t); err != nil {
		return err
	}
	if v, ok := g.known.Load(resource); ok {
		h := v.(*highest)
		if seen := h.raise(t); seen != forgotten {
			h.touch()
			return judge(resource, t, seen)
		}
	}
	return g.admitUnknown(resource, t)
}

// raise makes t the highest unless the highest is greater, and returns the highest from then on, or forgotten.
func (h *highest) raise(t Token) Token {
	for {
		seen := h.token.Load()
		if seen == forgotten || seen >= int64(t) {
			return Token(seen)
		}
		if h.token.CompareAndSwap(seen, int64(t)) {
			return t
		}
	}
}

// touch keeps the entry over the next sweep. It looks before it writes: many readers of one resource share the cache line.
func (h *highest) touch() {
	if !h.used.Load() {
		h.used.Store(true)
	}
}

func judge(resource string, t, seen Token) error {
	if t < seen {
		return &StaleError{Resource: resource, Got: t, Highest: seen}
	}
	return nil
}

// admitUnknown judges a resource that was not there when its caller looked. Entries are added and forgotten only under mu, so that it
// sees either the entry, alive, or a floor that covers it.
func (g *Gate) admitUnknown(resource string, t Token) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if v, ok := g.known.Load(resource); ok {
		h := v.(*highest)
		h.touch()
		return judge(resource, t, h.raise(t))
	}
	if err := judge(resource, t, g.floor); err != nil {
		return err
	}
	g.remember(resource, t)
	return nil
}

// remember adds an entry for a resource that has none. mu is held.
func (g *Gate) remember(resource string, t Token) {
	h := &highest{resource: resource}
	h.token.Store(int64(t))
	if len(g.ring) < g.limit() {
		g.ring = append(g.ring, h)
	} else {
		g.ring[g.forgetOne()] = h
	}
	g.known.Store(resource, h)
}

// forgetOne ends the first entry that was not used since the sweep came by, and returns its place. mu is held. At most two
// turns: the first takes the marks of use away; callers that set them anew meanwhile are given no third.
func (g *Gate) forgetOne() int {
	place := g.hand
	for range 2 * len(g.ring) {
		place = g.hand
		g.hand = (g.hand + 1) % len(g.ring)
		if !g.ring[place].used.Swap(false) {
			break
		}
	}
	h := g.ring[place]
	// After the swap nobody can raise the token any more, so the floor covers all that was ever admitted through h.
	g.floor = max(g.floor, Token(h.token.Swap(forgotten)))
	g.known.Delete(h.resource)
	return place
}

func (g *Gate) limit() int {
	if g.Limit > 0 {
		return g.Limit
	}
	return DefaultLimit
}

// RefuseBelow makes the gate refuse, for resources that it does not remember, every token below t. It never lowers what was refused before; t ≤ 0
// changes nothing. It is for a service that starts with nothing kept.
func (g *Gate) RefuseBelow(t Token) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.floor = max(g.floor, t)
}
