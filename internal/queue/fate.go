package queue

import (
	"sync"
	"time"

	"github.com/pawl-locks/pawl/internal/watcher"
)

// causeWait is how long a deleted key's cause may stay undecided: whether it
// alone was deleted, or its lease is gone, is told by another watch, or by a
// read.
const causeWait = 50 * time.Millisecond

// A fate is why a claim is over. It may be known to be over before it is known
// why.
type fate struct {
	c        *Claim
	held     bool // it was held: its loss matches ErrLost
	released bool
	once     sync.Once
	decided  chan struct{} // closed once err is set
	err      error
}

// always is closed.
var always = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// lost is a fate without a cause yet.
func (c *Claim) lost(held bool) *fate {
	return &fate{c: c, held: held, decided: make(chan struct{})}
}

// released is the fate of a claim that is given back, with as for Err.
func (c *Claim) released(as error) *fate {
	f := &fate{c: c, held: true, released: true, decided: always, err: as}
	f.once.Do(func() {})
	return f
}

// decide sets the cause; the first one stands.
func (f *fate) decide(cause error) {
	f.once.Do(func() {
		f.err = cause
		if f.held {
			f.err = &loss{cause}
		}
		close(f.decided)
		f.c.told(f)
	})
}

func (f *fate) known() bool {
	return isClosed(f.decided)
}

// reason is the cause, waited for a little where it is undecided.
func (f *fate) reason() error {
	if !f.known() {
		t := time.NewTimer(causeWait)
		defer t.Stop()
		select {
		case <-f.decided:
		case <-t.C:
			f.decide(ErrKeyDeleted)
		}
	}
	<-f.decided
	return f.err
}

// finish ends the claim with cause, or decides a fate that had none yet. The
// first cause stands.
func (c *Claim) finish(cause error) {
	f := c.mark()
	if f == nil {
		f = c.fate.Load()
	}
	f.decide(cause)
}

// mark makes the claim over, without a cause yet; nil if it was over.
func (c *Claim) mark() *fate {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fate.Load() != nil {
		return nil
	}
	f := c.lost(c.held)
	c.fate.Store(f)
	return f
}

// deleted ends the claim because its own key is gone, which it was not to our
// doing. Whether the lease went with it is asked; until that is decided the
// claim is over without a cause.
func (c *Claim) deleted() {
	f := c.mark()
	if f == nil {
		return
	}
	c.s.Settle(c.n)
	c.s.ExamineSoon(causeWait, func() { // ends the session, and so decides, if its key is gone too
		if err := c.s.Err(); err != nil {
			f.decide(err)
			return
		}
		f.decide(ErrKeyDeleted)
	})
}

// told does, once the cause is known and in this order, what rule H1 asks for
// after the mark: contexts, channels, and what is left of the claim.
func (c *Claim) told(f *fate) {
	c.mu.Lock()
	cancel, scope, works := c.cancel, c.scope, c.works
	own, ahead := c.own.w, c.ahead.w
	c.scope, c.works, c.own.w, c.ahead.w = nil, nil, nil, nil
	c.mu.Unlock()
	if scope != nil {
		scope()
	}
	if !f.released {
		if cancel != nil {
			cancel(f.err)
		}
		for _, w := range works {
			w.cancel(f.err)
		}
	}
	c.mu.Lock()
	if c.done != nil && !isClosed(c.done) {
		close(c.done)
	}
	c.mu.Unlock()
	c.s.Drop(&c.hook)
	for _, w := range []*watcher.Watch{own, ahead} {
		if w != nil {
			w.Cancel()
		}
	}
	c.tellFate(f)
}

func isClosed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}
