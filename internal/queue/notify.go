package queue

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/internal/notify"
	"github.com/pawl-locks/pawl/internal/queue/state"
	"github.com/pawl-locks/pawl/internal/session"
	"github.com/pawl-locks/pawl/observe"
)

// A notice holds what the client's observer learns of an acquisition. Without an observer it is
// nil, and nothing is delivered.
//
// Invariants: the event of the win is delivered before that of the end, whichever happened first.
// Only the first end is delivered.
type notice struct {
	id     int64 // unique in this process
	source *notify.Source
	ctx    context.Context // values of the call
	began  clock.Instant
	ahead  int // how many conflicting keys were ahead when it was enqueued; -1 if not known

	mu        sync.Mutex
	won       clock.Instant
	delivered bool          // the win was delivered
	end       observe.Event // an end that came before the win was delivered
	hasEnded  bool          // an end has come
	ended     clock.Instant // when the acquisition was marked as ended
}

// notices counts the notices of this process.
var notices atomic.Int64

// beginNotices makes the acquisition's notice.
func (a *Acquisition) beginNotices(ctx context.Context) {
	if source := a.s.Host().Cluster.Notifier().NewSource(); source != nil {
		a.notice = &notice{id: notices.Add(1), source: source, ctx: context.WithoutCancel(ctx), began: clock.Now(), ahead: -1}
	}
}

// which identifies the acquisition in events.
func (a *Acquisition) which() observe.Acquisition {
	c := observe.Acquisition{ID: a.notice.id, Name: a.queues[0].Name, Key: a.Key(), Token: a.Token(), Lease: a.s.ID(), Mode: a.Mode(), Slot: a.Slot()}
	if a.permit != nil && c.Slot < 0 {
		c.Token = 0 // the create revision of a turnstile key is not a token
	}
	if a.isSet() {
		c.Names = a.Names()
	}
	return c
}

// mode returns the mode in which the name is acquired.
func (q Queue) mode() observe.Mode {
	switch {
	case q.Shared:
		return observe.Shared
	case q.Limit > 0:
		return observe.Semaphore
	}
	return observe.Exclusive
}

func (a *Acquisition) notifyEnqueued() {
	v := a.notice
	switch {
	case v == nil:
	case a.queues[0].Election:
		v.source.Now(v.ctx, observe.CampaignEnqueued{Acquisition: a.which(), Ahead: v.ahead})
	default:
		v.source.Now(v.ctx, observe.LockEnqueued{Acquisition: a.which(), Ahead: v.ahead})
	}
}

// how returns the way in which it was won.
func (a *Acquisition) how() observe.How {
	switch ask(a, func(e *session.Entry) state.Evidence { return e.Evidence }) {
	case state.ByEnqueue:
		return observe.Free
	case state.ByTake:
		if !ask(a, (*session.Entry).Queried) {
			return observe.Free
		}
	case state.ByHandoff:
		return observe.Granted
	case state.ByResuming:
		return observe.Resumed
	}
	return observe.Confirmed
}

// notifyWon delivers that it is held, and then its end if that has already come.
func (a *Acquisition) notifyWon() {
	v := a.notice
	if v == nil {
		return
	}
	v.mu.Lock()
	v.won = clock.Now()
	wait := v.won.Sub(v.began)
	v.mu.Unlock()
	if a.queues[0].Election {
		v.source.Now(v.ctx, observe.TermElected{Acquisition: a.which(), How: a.how(), Wait: wait})
	} else {
		v.source.Now(v.ctx, observe.LockAcquired{Acquisition: a.which(), How: a.how(), Wait: wait})
	}
	if b := a.entry.Bound(); b != nil && b.Stall > 0 {
		a.notifyProgress()
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
	if a.queues[0].Election {
		v.source.Now(v.ctx, observe.CampaignGaveUp{Acquisition: a.which(), Wait: wait, Err: err})
	} else {
		v.source.Now(v.ctx, observe.LockGaveUp{Acquisition: a.which(), Wait: wait, Err: err})
	}
}

// notifyLoss records when the acquisition was marked as ended, and delivers a loss. It logs a
// loss that concerns the acquisition alone; the session logs its own end, once.
func (a *Acquisition) notifyLoss(e *ending) {
	switch log := a.s.Host().Cluster.Logger(); {
	case !e.lost:
	case errors.Is(e.err, ErrStalled):
		log.Warn("lost", "name", a.queues[0].Name, "key", a.Key(), "cause", cause(e.err).Error(), "runs", a.running())
	case errors.Is(e.err, ErrKeyDeleted), errors.Is(e.err, ErrKeyOverwritten), errors.Is(e.err, ErrMaxHold):
		log.Warn("lost", "name", a.queues[0].Name, "key", a.Key(), "cause", cause(e.err).Error())
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
	if e.lost {
		a.notifyEnd(e.err, nil, v.source.Later)
	}
}

// notifyReleased delivers that it was released. pending is not nil if the release is not confirmed
// yet. If the release found a loss, the loss was delivered already.
func (a *Acquisition) notifyReleased(pending error) {
	if a.notice != nil {
		a.notifyEnd(nil, pending, a.notice.source.Now)
	}
}

// notifyEnd delivers the end.
func (a *Acquisition) notifyEnd(lost, pending error, deliver func(context.Context, observe.Event)) {
	v := a.notice
	v.mu.Lock()
	held := max(v.ended.Sub(v.won), 0) // it may end before the win is recorded
	if v.won == (clock.Instant{}) {
		held = 0 // it ended before it could be delivered
	}
	var ev observe.Event
	switch {
	case a.queues[0].Election:
		ev = observe.TermEnded{Acquisition: a.which(), Led: held, Err: lost, Pending: pending}
	case lost != nil:
		ev = observe.LockLost{Acquisition: a.which(), Held: held, Err: lost}
	default:
		ev = observe.LockReleased{Acquisition: a.which(), Held: held, Pending: pending}
	}
	first, won := !v.hasEnded, v.delivered
	v.hasEnded = true
	if first && !won {
		v.end = ev
	}
	v.mu.Unlock()
	if first && won {
		deliver(v.ctx, ev)
	}
}

// Proclaiming begins a call of Term.Proclaim. The function that it returns delivers the call's
// result.
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
