//go:build unix

package fleet

import (
	"slices"
	"time"

	"github.com/pawl-locks/pawl/fencing"
)

// An Issuer makes the tokens. Its methods are called one at a time.
type Issuer interface {
	Issue(resource string) fencing.Token // greater than all before it
	End(resource string, t fencing.Token)
}

// counter is the Issuer of stores that keep the tokens themselves.
type counter struct{ fencing.Token }

func (c *counter) Issue(string) fencing.Token { c.Token++; return c.Token }
func (*counter) End(string, fencing.Token)    {}

type leased struct {
	resource string
	holders  []*grant // one, or all shared
	queue    []*grant
}

type grant struct {
	who    int
	shared bool
	token  fencing.Token
	given  chan fencing.Token // buffered, for the one token
	timer  *time.Timer
}

func (a *authority) enqueue(resource string, who int, shared bool) *grant {
	a.mu.Lock()
	defer a.mu.Unlock()
	l := a.locks[resource]
	if l == nil {
		l = &leased{resource: resource}
		a.locks[resource] = l
	}
	g := &grant{who: who, shared: shared, given: make(chan fencing.Token, 1)}
	l.queue = append(l.queue, g)
	a.pass(l)
	return g
}

func (a *authority) leave(resource string, g *grant) {
	a.mu.Lock()
	defer a.mu.Unlock()
	l := a.locks[resource]
	l.queue = slices.DeleteFunc(l.queue, func(q *grant) bool { return q == g })
}

func (a *authority) release(resource string, t fencing.Token) {
	a.mu.Lock()
	defer a.mu.Unlock()
	l := a.locks[resource]
	if l == nil {
		return
	}
	for _, g := range slices.Clone(l.holders) {
		if g.token == t {
			g.timer.Stop()
			a.inARow = 0
			a.end(l, g)
			a.pass(l)
		}
	}
}

// end takes the lock from one of its holders. mu is held.
func (a *authority) end(l *leased, g *grant) {
	a.issuer.End(l.resource, g.token)
	l.holders = slices.DeleteFunc(l.holders, func(h *grant) bool { return h == g })
}

// patience is how many leases may expire in a row before they get longer, because the machine is then
// too busy for anybody to finish in time.
const patience = 20

// expire ends g's lease if g still has it.
func (a *authority) expire(l *leased, g *grant) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !slices.Contains(l.holders, g) || a.closed {
		return
	}
	a.expired++
	if a.inARow++; a.inARow == patience {
		a.inARow, a.ttl = 0, 2*a.ttl
	}
	a.end(l, g)
	a.pass(l)
}

// pass gives the lock to the first in the queue, while the lock is free, or all who hold it and the
// first share it. mu is held.
func (a *authority) pass(l *leased) {
	for len(l.queue) > 0 && !a.closed && (len(l.holders) == 0 || l.holders[0].shared && l.queue[0].shared) {
		g := l.queue[0]
		l.queue = l.queue[1:]
		a.grant(l, g)
	}
}

func (a *authority) grant(l *leased, g *grant) {
	a.granted++
	g.token, l.holders = a.issuer.Issue(l.resource), append(l.holders, g)
	g.timer = time.AfterFunc(a.ttl, func() { a.expire(l, g) }) // ends at once
	g.given <- g.token
}

// seen reports how many leases were granted and how many expired, and how long they are.
func (a *authority) seen() (granted, expired int, ttl time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.granted, a.expired, a.ttl
}

// holders returns who holds something now.
func (a *authority) holders() (who []int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, l := range a.locks {
		for _, g := range l.holders {
			who = append(who, g.who)
		}
	}
	return who
}
