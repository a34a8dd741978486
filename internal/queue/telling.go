package queue

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/internal/notify"
	"github.com/pawl-locks/pawl/observe"
)

// A sight is what is told of a claim to the client's observer. Without one it is
// nil, and everything here does nothing.
//
// Invariants: what won is told before its end, whichever came first; of ends the
// first is told, and no other.
type sight struct {
	id    int64 // in this process
	feed  *notify.Feed
	ctx   context.Context // values of the call
	began clock.Instant
	ahead int // how many stood before the claim when it was enqueued; -1: not known

	mu   sync.Mutex
	won  clock.Instant
	told bool          // that it won
	end  observe.Event // came before told
	over bool          // end came
	gone clock.Instant // when the claim was marked
}

// sights is how many there were in this process.
var sights atomic.Int64

// see begins what is told of the claim.
func (c *Claim) see(ctx context.Context) {
	if feed := c.s.Host().Cluster.Teller().Feed(); feed != nil {
		c.sight = &sight{id: sights.Add(1), feed: feed, ctx: context.WithoutCancel(ctx), began: clock.Now(), ahead: -1}
	}
}

// which is the claim in events.
func (c *Claim) which() observe.Claim {
	return observe.Claim{ID: c.sight.id, Name: c.line.Name, Key: c.key, Token: c.Token(), Lease: c.s.ID()}
}

// sawAhead notes that n stood before the claim when it was enqueued.
func (c *Claim) sawAhead(n int) {
	if c.sight != nil {
		c.sight.ahead = n
	}
}

func (c *Claim) tellEnqueued() {
	v := c.sight
	switch {
	case v == nil:
	case c.line.Election:
		v.feed.Now(v.ctx, observe.CampaignEnqueued{Claim: c.which(), Ahead: v.ahead})
	default:
		v.feed.Now(v.ctx, observe.LockEnqueued{Claim: c.which(), Ahead: v.ahead})
	}
}

// how is how an Acquire has won.
func (c *Claim) how() observe.How {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.woken == nil:
		return observe.Free
	case c.mine:
		return observe.Granted
	}
	return observe.Confirmed
}

// tellWon tells that it is held, and then its end if that has come already.
func (c *Claim) tellWon(how func() observe.How) {
	v := c.sight
	if v == nil {
		return
	}
	v.mu.Lock()
	v.won = clock.Now()
	wait := v.won.Sub(v.began)
	v.mu.Unlock()
	if c.line.Election {
		v.feed.Now(v.ctx, observe.TermElected{Claim: c.which(), How: how(), Wait: wait})
	} else {
		v.feed.Now(v.ctx, observe.LockAcquired{Claim: c.which(), How: how(), Wait: wait})
	}
	v.mu.Lock()
	v.told = true
	end := v.end
	v.mu.Unlock()
	if end != nil {
		v.feed.Later(v.ctx, end)
	}
}

func resumed() observe.How { return observe.Resumed }

// tellGaveUp tells that Acquire returns err.
func (c *Claim) tellGaveUp(err error) {
	v := c.sight
	if v == nil {
		return
	}
	wait := clock.Now().Sub(v.began)
	if c.line.Election {
		v.feed.Now(v.ctx, observe.CampaignGaveUp{Claim: c.which(), Wait: wait, Err: err})
	} else {
		v.feed.Now(v.ctx, observe.LockGaveUp{Claim: c.which(), Wait: wait, Err: err})
	}
}

// tellFate notes when the claim was marked over, and tells of a loss. The log is
// told of one that is the claim's alone; of a session's end it is told once. It
// does not ask the session, whose end could come back to the fate being decided.
func (c *Claim) tellFate(f *fate) {
	lost := f.held && !f.released
	if lost && (errors.Is(f.err, ErrKeyDeleted) || errors.Is(f.err, ErrKeyOverwritten)) {
		c.s.Host().Cluster.Logger().Warn("lost", "name", c.line.Name, "key", c.key, "cause", cause(f.err).Error())
	}
	v := c.sight
	if v == nil {
		return
	}
	v.mu.Lock()
	if v.gone == (clock.Instant{}) {
		v.gone = clock.Now()
	}
	v.mu.Unlock()
	if lost {
		c.tellEnd(f.err, nil, v.feed.Later)
	}
}

// tellReleased tells that it was given back; pending: not confirmed for now. Where
// the release has found a loss, that was told.
func (c *Claim) tellReleased(pending error) {
	if c.sight != nil {
		c.tellEnd(nil, pending, c.sight.feed.Now)
	}
}

// tellEnd tells how it ended.
func (c *Claim) tellEnd(lost, pending error, tell func(context.Context, observe.Event)) {
	v := c.sight
	v.mu.Lock()
	held := max(v.gone.Sub(v.won), 0) // it may be over before the win is noted
	if v.won == (clock.Instant{}) {
		held = 0 // it was over before it could be told
	}
	var ev observe.Event
	switch {
	case c.line.Election:
		ev = observe.TermEnded{Claim: c.which(), Led: held, Err: lost, Pending: pending}
	case lost != nil:
		ev = observe.LockLost{Claim: c.which(), Held: held, Err: lost}
	default:
		ev = observe.LockReleased{Claim: c.which(), Held: held, Pending: pending}
	}
	first, told := !v.over, v.told
	v.over = true
	if first && !told {
		v.end = ev
	}
	v.mu.Unlock()
	if first && told {
		tell(v.ctx, ev)
	}
}

// Proclaiming begins a call of Term.Proclaim; the function that it returns tells
// what came of it.
func (c *Claim) Proclaiming() func(err error) {
	v := c.sight
	if v == nil {
		return func(error) {}
	}
	began := clock.Now()
	return func(err error) {
		v.feed.Now(v.ctx, observe.TermProclaimed{Claim: c.which(), Took: clock.Now().Sub(began), Err: err})
	}
}
