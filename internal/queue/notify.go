package queue

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/internal/notify"
	"github.com/pawl-locks/pawl/internal/queue/state"
	"github.com/pawl-locks/pawl/observe"
)

// A notice is what the client's observer is notified of about an acquisition. Without
// an observer it is nil, and everything here does nothing.
//
// Invariants: a win is delivered before its end, whichever came first; of ends the
// first is delivered, and no other.
type notice struct {
	id     int64 // in this process
	source *notify.Source
	ctx    context.Context // values of the call
	began  clock.Instant
	ahead  int // how many stood before it when it was enqueued; -1: not known

	mu        sync.Mutex
	won       clock.Instant
	delivered bool          // the win
	end       observe.Event // came before that
	over      bool          // end came
	ended     clock.Instant // when it was marked so
}

// notices is how many there were in this process.
var notices atomic.Int64

// beginNotices begins what an observer is notified of.
func (a *Acquisition) beginNotices(ctx context.Context) {
	if source := a.s.Host().Cluster.Notifier().NewSource(); source != nil {
		a.notice = &notice{id: notices.Add(1), source: source, ctx: context.WithoutCancel(ctx), began: clock.Now(), ahead: -1}
	}
}

// which is the acquisition in events.
func (a *Acquisition) which() observe.Acquisition {
	c := observe.Acquisition{ID: a.notice.id, Name: a.queue.Name, Key: a.Key(), Token: a.Token(), Lease: a.s.ID(), Mode: a.queue.mode(), Slot: -1}
	if a.permit != nil {
		if slot, ok := a.Slot(); ok {
			c.Slot = slot
		} else {
			c.Token = 0 // that of a key in the turnstile is none
		}
	}
	if !a.isSet() {
		return c
	}
	for _, q := range a.queues() {
		c.Names = append(c.Names, q.Name)
		if !q.Shared {
			c.Mode = observe.Exclusive
		}
	}
	return c
}

// mode is how the name is wanted, in events.
func (q Queue) mode() observe.Mode {
	switch {
	case q.Shared:
		return observe.Shared
	case q.Limit > 0:
		return observe.Semaphore
	}
	return observe.Exclusive
}

// sawAhead notes that n stood before it, or, of a shared one, in its way, when it was
// enqueued.
func (a *Acquisition) sawAhead(n int) {
	if a.notice != nil {
		a.notice.ahead = n
	}
}

func (a *Acquisition) notifyEnqueued() {
	v := a.notice
	switch {
	case v == nil:
	case a.queue.Election:
		v.source.Now(v.ctx, observe.CampaignEnqueued{Acquisition: a.which(), Ahead: v.ahead})
	default:
		v.source.Now(v.ctx, observe.LockEnqueued{Acquisition: a.which(), Ahead: v.ahead})
	}
}

// how is how it was won.
func (a *Acquisition) how() observe.How {
	switch read(a, (*state.Acquisition).Evidence) {
	case state.ByEnqueue:
		return observe.Free
	case state.ByTake:
		if !read(a, (*state.Acquisition).Queried) {
			return observe.Free
		}
	case state.ByHandoff:
		return observe.Granted
	case state.ByResuming:
		return observe.Resumed
	}
	return observe.Confirmed
}

// notifyWon delivers that it is held, and then its end if that has come already.
func (a *Acquisition) notifyWon() {
	v := a.notice
	if v == nil {
		return
	}
	v.mu.Lock()
	v.won = clock.Now()
	wait := v.won.Sub(v.began)
	v.mu.Unlock()
	if a.queue.Election {
		v.source.Now(v.ctx, observe.TermElected{Acquisition: a.which(), How: a.how(), Wait: wait})
	} else {
		v.source.Now(v.ctx, observe.LockAcquired{Acquisition: a.which(), How: a.how(), Wait: wait})
	}
	v.mu.Lock()
	v.delivered = true
	end := v.end
	v.mu.Unlock()
	if end != nil {
		v.source.Later(v.ctx, end)
	}
}

// notifyGaveUp delivers that Acquire returns err.
func (a *Acquisition) notifyGaveUp(err error) {
	v := a.notice
	if v == nil {
		return
	}
	wait := clock.Now().Sub(v.began)
	if a.queue.Election {
		v.source.Now(v.ctx, observe.CampaignGaveUp{Acquisition: a.which(), Wait: wait, Err: err})
	} else {
		v.source.Now(v.ctx, observe.LockGaveUp{Acquisition: a.which(), Wait: wait, Err: err})
	}
}

// notifyLoss notes when it was marked as ended, and delivers a loss. The log gets one
// that is the acquisition's alone; a session's end is logged once, there. It does not
// ask the session, whose end could come back to the end being decided.
func (a *Acquisition) notifyLoss(e *ending) {
	lost := e.held && !e.released
	if lost && (errors.Is(e.err, ErrKeyDeleted) || errors.Is(e.err, ErrKeyOverwritten) || errors.Is(e.err, ErrMaxHold)) {
		a.s.Host().Cluster.Logger().Warn("lost", "name", a.queue.Name, "key", a.Key(), "cause", cause(e.err).Error())
	}
	v := a.notice
	if v == nil {
		return
	}
	v.mu.Lock()
	if v.ended == (clock.Instant{}) {
		v.ended = clock.Now()
	}
	v.mu.Unlock()
	if lost {
		a.notifyEnd(e.err, nil, v.source.Later)
	}
}

// notifyReleased delivers that it was given back; pending: not confirmed for now. Where
// the release has found a loss, that was delivered.
func (a *Acquisition) notifyReleased(pending error) {
	if a.notice != nil {
		a.notifyEnd(nil, pending, a.notice.source.Now)
	}
}

// notifyEnd delivers how it ended.
func (a *Acquisition) notifyEnd(lost, pending error, deliver func(context.Context, observe.Event)) {
	v := a.notice
	v.mu.Lock()
	held := max(v.ended.Sub(v.won), 0) // it may end before the win is noted
	if v.won == (clock.Instant{}) {
		held = 0 // it ended before it could be delivered
	}
	var ev observe.Event
	switch {
	case a.queue.Election:
		ev = observe.TermEnded{Acquisition: a.which(), Led: held, Err: lost, Pending: pending}
	case lost != nil:
		ev = observe.LockLost{Acquisition: a.which(), Held: held, Err: lost}
	default:
		ev = observe.LockReleased{Acquisition: a.which(), Held: held, Pending: pending}
	}
	first, won := !v.over, v.delivered
	v.over = true
	if first && !won {
		v.end = ev
	}
	v.mu.Unlock()
	if first && won {
		deliver(v.ctx, ev)
	}
}

// Proclaiming begins a call of Term.Proclaim; the function that it returns
// delivers what came of it.
func (a *Acquisition) Proclaiming() func(err error) {
	v := a.notice
	if v == nil {
		return func(error) {}
	}
	began := clock.Now()
	return func(err error) {
		v.source.Now(v.ctx, observe.TermProclaimed{Acquisition: a.which(), Took: clock.Now().Sub(began), Err: err})
	}
}
