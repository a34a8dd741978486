package shard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-locks/pawl/internal/backoff"
	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/notify"
	"github.com/pawl-locks/pawl/internal/queue"
	"github.com/pawl-locks/pawl/internal/session"
	"github.com/pawl-locks/pawl/internal/shards"
	"github.com/pawl-locks/pawl/internal/txn"
	"github.com/pawl-locks/pawl/lock"
	"github.com/pawl-locks/pawl/observe"
)

// A hold is a shard that is held.
type hold struct {
	m     *member
	c     *carrier
	shard int
	a     *queue.Acquisition
	h     *Held

	works   *session.Deferral       // keeps the hold's key while its work runs
	done    func()                  // ends that
	move    context.CancelCauseFunc // ends the context of the work that runs
	running bool
	over    bool             // work has returned, which is not processed yet
	moved   time.Time        // when work's context ended with ErrMoved; zero if it did not
	took    time.Duration    // the time from moved until work returned
	why     observe.ShardEnd // why it is given up
	failed  error            // what work returned after the end of its context, unless it is that end
	overrun *time.Timer
}

// do does what the Worker has decided.
func (r *runner) do(a shards.Action) {
	i := a.Shard
	h := r.m.holds[i]
	switch a.Kind {
	case shards.Enqueue:
		r.m.enqueue(i, false)
		return
	case shards.Try:
		r.m.enqueue(i, true)
		return
	case shards.Quit:
		r.tries[i]()
		r.m.quits = true
		return
	}
	if h == nil { // lost meanwhile
		return
	}
	switch a.Kind {
	case shards.Work:
		h.begin()
	case shards.Move:
		h.offer()
	case shards.Recheck:
		h.recheck()
	case shards.Release:
		h.release()
	}
}

// enqueue prepares shard i, and queues for it.
func (m *member) enqueue(i int, ifFree bool) {
	ctx, cancel := context.WithCancel(m.ctx)
	m.tries[i] = cancel
	if m.opts.Prepare == nil {
		m.acquire(ctx, i, ifFree)
		return
	}
	// Not a job of the member, so that a call that does not return holds up no other shard.
	m.runner.call(func() error { return m.opts.Prepare(ctx, i) }, func(err error) {
		switch {
		case ctx.Err() != nil:
			m.refused(i, nil)
		case err != nil:
			m.refused(i, fmt.Errorf("prepare: %w", err))
		default:
			m.acquire(ctx, i, ifFree)
		}
	})
}

// acquired processes a hold. It returns false if nothing will use it any more.
func (c *carrier) acquired(i int, a *queue.Acquisition, works *session.Deferral) bool {
	m := c.m
	if m.ended || a.Err() != nil {
		m.job(func() func() { _ = a.Release(m.ctx, lock.ErrReleased); return func() {} })
		return false
	}
	m.endTry(i)
	h := &hold{m: m, c: c, shard: i, a: a, h: newHeld(a, c.session, i), works: works}
	m.holds[i] = h
	m.queueFailures.Works()
	m.w.Acquired(time.Now(), i)
	m.notify(Event{Kind: Acquired, Shard: i, Token: h.h.Token()})
	m.source.Now(m.values, observe.ShardHeld{Shard: h.which()})
	context.AfterFunc(h.h.Context(), func() { m.post(h.lose) })
	return true
}

// refused processes the end of a try without a hold. err, unless nil, is why the shard must not be
// queued for again at once.
func (m *member) refused(i int, err error) {
	m.endTry(i)
	if cluster.IsNoSpace(err) {
		m.w.Hindered(time.Now(), i)
	} else {
		m.w.Refused(time.Now(), i, err != nil)
	}
	if err != nil {
		m.notify(Event{Kind: Failed, Shard: i, Err: err})
	}
}

func (m *member) endTry(i int) {
	m.tries[i]()
	delete(m.tries, i)
}

// begin calls work.
func (h *hold) begin() {
	m := h.m
	h.done = h.works.Begin() // before the last call of Err, so that no loss can come between
	if h.a.Err() != nil {    // the hold ended while no work ran
		h.done()
		h.lose()
		return
	}
	ctx, cancel := context.WithCancelCause(h.h.Context())
	h.move, h.running = cancel, true
	h.moved, h.took, h.why = time.Time{}, 0, "" // of a work that ran before this one
	h.c.works++
	m.runner.works++
	m.runner.call(func() error {
		if m.opts.Stall > 0 {
			h.a.BoundStall(m.opts.Stall)
		}
		return m.work(ctx, h.h)
	}, func(err error) {
		cancel(nil)
		h.returned(err)
	})
}

// offer ends work's context, because another worker waits for the shard.
func (h *hold) offer() {
	m := h.m
	if h.h.Err() != nil && !errors.Is(h.h.Err(), lock.ErrReleased) {
		h.lose() // the context of work ended with the loss
		return
	}
	h.move(ErrMoved)
	h.moved, h.took, h.why = time.Now(), 0, observe.ShardMoved
	if m.leaving {
		h.why = observe.ShardLeft
	}
	m.notify(Event{Kind: Moving, Shard: h.shard, Token: h.h.Token()})
	if m.opts.Overrun > 0 {
		moved := h.moved
		h.overrun = time.AfterFunc(m.opts.Overrun, func() {
			m.post(func() {
				if h.moved == moved { // otherwise this work has returned meanwhile
					h.take()
				}
			})
		})
	}
}

// take takes the shard from a work that has gone on for too long after ErrMoved. The Held is lost at
// once, and the shard's key is deleted a margin later, while other works go on.
func (h *hold) take() {
	m := h.m
	if !h.running || m.holds[h.shard] != h {
		return
	}
	margin := h.c.s.TTL() - h.c.s.Validity()
	if h.a.Promise(clock.Now().Add(margin)) == nil {
		h.a.Forfeit(ErrMoved)
		h.done()
	}
}

// lose processes the loss of the hold.
func (h *hold) lose() {
	m := h.m
	if m.holds[h.shard] != h {
		return
	}
	h.end()
	stalled := h.running && errors.Is(h.h.Err(), lock.ErrStalled)
	if h.running {
		h.move(h.h.Err()) // before others get the shard; if work has released it and goes on, nothing else ends its context
	}
	if stalled {
		h.done() // the work that hangs keeps nothing from others
		m.w.Stalled(time.Now(), h.shard)
	} else {
		m.w.Lost(h.shard, h.running)
	}
	if err := h.h.Err(); stalled && !h.over {
		work := notify.FuncName(m.work)
		m.host.Cluster.Logger().Warn("shards: work still runs after the loss of its shard", "name", m.name, "shard", h.shard, "runs", work)
		h.isLost(fmt.Errorf("%w; %s still runs", err, work))
	} else if !errors.Is(err, lock.ErrReleased) {
		h.isLost(err)
	} else { // work released it, or its release is under way
		h.isReleased(nil)
	}
}

// end removes the hold, and gives back its room.
func (h *hold) end() {
	delete(h.m.holds, h.shard)
	h.c.keys--
}

// isLost reports a loss.
func (h *hold) isLost(err error) {
	h.m.notify(Event{Kind: Lost, Shard: h.shard, Token: h.h.Token(), Err: err})
	h.m.source.Now(h.m.values, observe.ShardEnded{Shard: h.which(), Why: observe.ShardLost, Took: h.took, Err: err})
}

// isReleased reports a release. err, unless nil, is why it is not confirmed.
func (h *hold) isReleased(err error) {
	h.m.notify(Event{Kind: Released, Shard: h.shard, Token: h.h.Token(), Err: errors.Join(h.failed, err)})
	h.m.source.Now(h.m.values, observe.ShardEnded{Shard: h.which(), Why: cmp.Or(h.why, observe.ShardFailed), Took: h.took})
}

// which identifies the hold in events.
func (h *hold) which() observe.Shard {
	return observe.Shard{Name: h.m.name, Shard: h.shard, Token: h.h.Token(), Lease: h.m.s.ID()}
}

// returned processes the return of work.
func (h *hold) returned(err error) {
	m := h.m
	h.running = false
	h.done()
	if !h.moved.IsZero() {
		h.took = time.Since(h.moved)
	}
	if h.overrun != nil {
		h.overrun.Stop()
	}
	m.runner.works--
	if h.c.works--; h.c.works == 0 && h.c.ended {
		h.c.done()
	}
	if h.h.Err() != nil && !errors.Is(h.h.Err(), lock.ErrReleased) {
		h.running, h.over = true, true
		h.lose() // before its context reports that
		h.running = false
	}
	if m.opts.Stall > 0 {
		h.a.BoundStall(0) // until work is called again
	}
	now := time.Now()
	if early := m.w.Returned(now, h.shard); early {
		h.why = observe.ShardFailed
		m.notify(Event{Kind: Failed, Shard: h.shard, Token: h.h.Token(), Err: err})
	} else if err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, ErrMoved) {
		h.failed = err
	}
}

// recheck reads whether somebody still waits for the shard.
func (h *hold) recheck() {
	m := h.m
	prefix, own := m.keys.Queue(h.shard).Prefix, h.h.Key()
	m.job(func() func() {
		pace := backoff.Backoff{First: 50 * time.Millisecond, Most: 2 * time.Second}
		for {
			resp, err := m.host.Cluster.Txn(m.ctx, cluster.Request{Op: "read who still waits for a shard"}, &pb.TxnRequest{
				Success: []*pb.RequestOp{txn.FirstUnder(prefix, 2)},
			})
			if err != nil && pace.Sleep(m.ctx) {
				continue
			}
			return func() {
				if err != nil || m.holds[h.shard] != h {
					return // the session has ended
				}
				waits := errors.Is(h.h.Err(), lock.ErrReleased)
				for _, kv := range txn.KVs(resp, 0) {
					waits = waits || string(kv.Key) != own
				}
				m.w.Rechecked(time.Now(), h.shard, resp.Header.Revision, waits)
			}
		}
	})
}

// releaseWait is how long to wait for a release. After that it continues in the background.
const releaseWait = 5 * time.Second

func (h *hold) release() {
	m := h.m
	m.job(func() func() {
		ctx, cancel := context.WithTimeout(m.ctx, releaseWait)
		defer cancel()
		err := h.a.Release(ctx, lock.ErrReleased)
		return func() {
			if m.holds[h.shard] != h {
				return
			}
			h.end()
			m.w.Released(h.shard)
			if errors.Is(err, lock.ErrLost) {
				h.isLost(err)
				return
			}
			h.isReleased(err)
		}
	})
}
