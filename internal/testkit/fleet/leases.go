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
	holder   *grant
	queue    []*grant
}

type grant struct {
	who   int
	token fencing.Token
	given chan fencing.Token // buffered, for the one token
	timer *time.Timer
}

func (a *authority) enqueue(resource string, who int) *grant {
	a.mu.Lock()
	defer a.mu.Unlock()
	l := a.locks[resource]
	if l == nil {
		l = &leased{resource: resource}
		a.locks[resource] = l
	}
	g := &grant{who: who, given: make(chan fencing.Token, 1)}
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
	if l := a.locks[resource]; l != nil && l.holder != nil && l.holder.token == t {
		l.holder.timer.Stop()
		a.inARow = 0
		a.end(l)
		a.pass(l)
	}
}

// end takes the lock from its holder. mu is held.
func (a *authority) end(l *leased) {
	a.issuer.End(l.resource, l.holder.token)
	l.holder = nil
}

// patience is how many leases may expire in a row before they get longer: the machine is then too busy for anybody to be done in time.
const patience = 20

// expire ends g's lease if g has it still.
func (a *authority) expire(l *leased, g *grant) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if l.holder != g || a.closed {
		return
	}
	a.expired++
	if a.inARow++; a.inARow == patience {
		a.inARow, a.ttl = 0, 2*a.ttl
	}
	a.end(l)
	a.pass(l)
}

// pass gives a free lock to the first in the queue. mu is held.
func (a *authority) pass(l *leased) {
	if l.holder != nil || len(l.queue) == 0 || a.closed {
		return
	}
	g := l.queue[0]
	l.queue = l.queue[1:]
	a.granted++
	g.token, l.holder = a.issuer.Issue(l.resource), g
	g.timer = time.AfterFunc(a.ttl, func() { a.expire(l, g) }) // ends at once
	g.given <- g.token
}

// seen tells how many leases were granted and how many expired, and how long they are.
func (a *authority) seen() (granted, expired int, ttl time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.granted, a.expired, a.ttl
}

// holders returns who holds something just now.
func (a *authority) holders() (who []int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, l := range a.locks {
		if l.holder != nil {
			who = append(who, l.holder.who)
		}
	}
	return who
}
