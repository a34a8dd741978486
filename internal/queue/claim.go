package queue

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/pawl-locks/pawl/internal/kvinside"
	"github.com/pawl-locks/pawl/internal/session"
	"github.com/pawl-locks/pawl/internal/watcher"
	"github.com/pawl-locks/pawl/kv"
)

// A Claim is one key in a line, from its enqueue to its end: first a place in
// the queue, then what is held. It is used once.
//
// Invariants: fate is nil while the claim is alive, and is replaced at most
// once, a release by the loss that it found. create is 0 until the enqueue is
// known to be applied, and never changes then. held is set once, by Acquire.
type Claim struct {
	s      *session.Session
	line   Line
	key    string
	n      int64           // the attempt's number
	parent context.Context // Acquire's: for its values only
	hook   session.Hook
	grants bool // its key may be granted to, and may grant

	create int64 // the token; set before the claim is shared
	fate   atomic.Pointer[fate]
	sight  *sight        // what is told of it to an observer
	woken  chan struct{} // wakes the waiting Acquire; nil where it does not wait

	mu       sync.Mutex
	scope    context.CancelFunc // of an Acquire under way
	held     bool
	before   place           // the key that is waited for
	passed   bool            // before is not there any more, or may not be
	goneAt   int64           // the revision of before's deletion; 0: not known
	expected bool            // before's release was to be a grant to this claim
	mine     bool            // before's release was: it holds
	heirs    keys.Successors // those known to be behind, in order; see grant.go. Not changed in place
	own      feed            // of the own key
	ahead    feed            // of the key before
	mod      int64           // of the own key, as we know it
	writing  []*write        // to the own key, not known to be applied or not; all compare mod
	recall   bool            // a call of Rewrite is under way
	reread   bool            // a read behind one is
	ctx      context.Context
	cancel   context.CancelCauseFunc
	done     chan struct{}
	works    []*work // of Do, to be told of a loss
	freeing  release
}

// None is what a nil handle holds: a claim that is over, and was never held.
var None = func() *Claim {
	c := &Claim{parent: context.Background()}
	f := &fate{c: c, decided: always, err: errors.New("not held: nil handle")}
	f.once.Do(func() {}) // decided
	c.fate.Store(f)
	// Made now, for all: one made at a first call inside a synctest bubble could
	// not be used in any other.
	_, _ = c.Done(), c.Context()
	return c
}()

// place is a key as it was seen.
type place struct {
	key    string
	create int64
}

// feed is a watch that is made anew when it is over.
type feed struct {
	w    *watcher.Watch
	over bool
}

// Key is the whole key, namespace included.
func (c *Claim) Key() string { return c.key }

// Name is the line's name as it was given.
func (c *Claim) Name() string { return c.line.Name }

// Token is the create revision of Key.
func (c *Claim) Token() fencing.Token { return fencing.Token(c.create) }

// Guard is a comparison of Key's create revision with Token. A transaction with
// it is refused here once Err is not nil, and by the server in any case.
func (c *Claim) Guard() kv.Guard { return kvinside.Guard(c.key, c.Token(), c).(kv.Guard) }

// Err is nil while it is held, and then why not. It compares the clock at the
// call. In the moment in which the own key is known to be deleted but not yet
// whether its lease went with it, Err waits for that, at most causeWait.
func (c *Claim) Err() error {
	if f := c.fate.Load(); f != nil {
		return f.reason()
	}
	if err := c.s.Err(); err != nil {
		c.End(err)
		return c.fate.Load().reason()
	}
	return nil
}

// over is why an Acquire under way is given up: what Err says, and else the end
// of ctx.
func (c *Claim) over(ctx context.Context) error {
	if err := c.Err(); err != nil {
		return err
	}
	return cluster.EndOf(ctx)
}

// Deadline is until when it is held unless the session is renewed, for time.Now
// and reckoned at the call; the zero Time once it is over.
func (c *Claim) Deadline() time.Time {
	if c.Err() != nil {
		return time.Time{}
	}
	return c.s.Deadline()
}

// Done is closed when it is not held any more, release included.
func (c *Claim) Done() <-chan struct{} {
	_ = c.Err() // so that a deadline that has passed is seen now
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done == nil {
		c.done = make(chan struct{})
		if f := c.fate.Load(); f != nil && f.known() {
			close(c.done)
		}
	}
	return c.done
}

// Context has the values of Acquire's context, and the token. It is cancelled,
// with the cause, at loss, and not at release. It is made at the first call and
// registered with no parent.
func (c *Claim) Context() context.Context {
	_ = c.Err()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx == nil {
		c.ctx, c.cancel = context.WithCancelCause(c.withToken(context.WithoutCancel(c.parent)))
		if f := c.fate.Load(); f != nil && f.known() && !f.released {
			c.cancel(f.err)
		}
	}
	return c.ctx
}

// withToken is ctx with the claim's token.
func (c *Claim) withToken(ctx context.Context) context.Context {
	return fencing.NewContext(ctx, c.line.Name, c.Token())
}

// Keys implements session.Claim.
func (c *Claim) Keys() (own, before string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.create == 0 {
		return "", "" // not known to be enqueued
	}
	return c.key, c.before.key
}

// End implements session.Claim: the session is over.
func (c *Claim) End(cause error) { c.finish(cause) }

// wake wakes the waiting Acquire.
func (c *Claim) wake() {
	select {
	case c.woken <- struct{}{}:
	default: // nobody waits, or is woken already
	}
}
