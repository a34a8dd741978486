package fencing

import (
	"context"
	"fmt"
	"sync"
)

// DefaultLimit is how many resources a Gate whose Limit is 0 remembers.
const DefaultLimit = 1 << 16

// A Gate is a guard in memory, for a service that owns its state: it admits a token unless a
// greater one was admitted for the same resource. The zero Gate is ready. It is safe for concurrent
// use, and must not be copied after its first use. A resource that the gate remembers is compared
// without a lock; only a new resource takes one.
//
// # Two registers
//
// For each resource the gate keeps the highest exclusive token and the highest token of either mode. It
// admits an exclusive token that is not below the highest of either mode, and a shared one that is above
// the highest exclusive one. So it never refuses a holder because of another that shares the lock with
// it. It never admits a holder after a later exclusive one, nor a writer after a later reader. Both
// registers are read and changed in one step, so calls at the same time have the results of some order
// of them.
//
// # In one step with the write
//
// Admit is valid for the instant of the call. Call it under the mutex (or in the same turn of the
// loop) that guards the state which the caller then reads or writes. If a request is admitted and
// then waits for that mutex, it may write after a newer holder did.
//
// # What is forgotten
//
// A gate remembers at most Limit resources, with about 200 bytes and the name for each. When another one
// is added, it forgets one that was not used since the last sweep, and raises its floor to the highest
// tokens forgotten so far. It compares tokens of a resource that it does not remember with the floor. So
// a token that was refused once is refused for good: if it was below the highest of a forgotten
// resource, it is below the floor. The price is that a valid holder may be refused too, if it came
// before the forgotten one, and has sent nothing while Limit other resources were used. It acquires the
// lock again, and its new token is above the floor, provided that the tokens of all resources of one
// gate come from one counter, as those of one etcd cluster do. Use a gate for each cluster.
//
// A huge token is admitted like any other. It excludes all real holders of its resource for good,
// and those of every unknown resource once the gate forgets it, so authenticate clients before you
// accept their tokens.
//
// # Restart
//
// The zero Gate knows nothing, and admits what its predecessor refused. Restore it from a Snapshot that
// was saved together with the state, or call Admit again, in order, for a log of the writes. If nothing
// was kept, acquire a lock that belongs to the service and call RefuseBelow with its token, so that
// every holder from before the restart has to acquire again.
type Gate struct {
	Limit int // resources remembered, DefaultLimit if 0 or less; set it before the first use

	known sync.Map // resource → *registers; changed only under mu

	mu    sync.Mutex
	floor pair         // of forgotten resources and of RefuseBelow; used for every unknown resource
	ring  []*registers // all known resources, in the order of the sweep
	hand  int
}

// Admit returns nil if no token greater than t was admitted for resource, and remembers t as the highest
// exclusive one. It returns a *StaleError if there was one, and an error matching ErrNoToken or
// ErrNoResource if t or resource cannot be used. The gate changes only if Admit returns nil. It does not
// block for longer than another resource takes to be added, or a snapshot to be written.
func (g *Gate) Admit(resource string, t Token) error { return g.admit(resource, t, false) }

// AdmitShared is Admit for the token of a shared lock. It returns nil if no exclusive token as great as
// t was admitted for resource. Once it has returned nil, Admit refuses every exclusive token below t.
func (g *Gate) AdmitShared(resource string, t Token) error { return g.admit(resource, t, true) }

// AdmitContext admits the token that ctx carries, in its mode. Its error matches ErrNoToken if ctx
// carries none.
func (g *Gate) AdmitContext(ctx context.Context) error {
	c, _ := ctx.Value(contextKey{}).(carried)
	if c.token == 0 {
		return fmt.Errorf("fencing: %w in the context", ErrNoToken)
	}
	return g.admit(c.resource, c.token, c.shared)
}

func (g *Gate) admit(resource string, t Token, shared bool) error {
	if err := Check(resource, t); err != nil {
		return err
	}
	if v, ok := g.known.Load(resource); ok {
		r := v.(*registers)
		if seen := r.admit(t, shared); seen != forgotten {
			r.touch()
			return compare(resource, t, seen, shared)
		}
	}
	return g.admitUnknown(resource, t, shared)
}

// admitUnknown admits a token for a resource that the caller did not find. Entries are added and
// forgotten only under mu, so it finds either the live entry, or a floor that covers it.
func (g *Gate) admitUnknown(resource string, t Token, shared bool) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if v, ok := g.known.Load(resource); ok {
		r := v.(*registers)
		r.touch()
		return compare(resource, t, r.admit(t, shared), shared)
	}
	r := newRegisters(resource, g.floor)
	err := compare(resource, t, r.admit(t, shared), shared)
	if err == nil {
		g.remember(r)
	}
	return err
}

// remember adds an entry for a resource that has none. mu is held.
func (g *Gate) remember(r *registers) {
	if len(g.ring) < g.limit() {
		g.ring = append(g.ring, r)
	} else {
		g.ring[g.forgetOne()] = r
	}
	g.known.Store(r.resource, r)
}

// forgetOne ends the first entry that was not used since the last sweep, and returns its place.
// mu is held. It makes at most two rounds: the first clears the marks of use, and callers that
// set them again meanwhile do not cause a third.
func (g *Gate) forgetOne() int {
	place := g.hand
	for range 2 * len(g.ring) {
		place = g.hand
		g.hand = (g.hand + 1) % len(g.ring)
		if !g.ring[place].used.Swap(false) {
			break
		}
	}
	r := g.ring[place]
	g.floor = g.floor.max(r.forget())
	g.known.Delete(r.resource)
	return place
}

func (g *Gate) limit() int {
	if g.Limit > 0 {
		return g.Limit
	}
	return DefaultLimit
}

// RefuseBelow makes the gate refuse, for resources that it does not remember, every token below t.
// It never lowers what was refused before; t ≤ 0 changes nothing. It is for a service that starts
// with nothing kept.
func (g *Gate) RefuseBelow(t Token) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.floor = g.floor.max(pair{exclusive: max(t, 1) - 1, highest: t})
}
