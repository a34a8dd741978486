package simulate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/kv"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
	"github.com/pawl-locks/pawl/test/proof/history"
)

// work calls Err, and writes, for a while, which is short if others wait for the end.
func (a *actor) work(h *lock.Held) {
	most := 5
	if a.calm {
		most = 1
	}
	a.watchWanted(h)
	for range 1 + a.r.IntN(most) {
		a.look(h)
		switch a.r.IntN(3) {
		case 0:
			a.guarded(h)
		case 1:
			a.fenced(h)
		}
		time.Sleep(between(a.r, 0, a.w.plan.TTL/3))
		if a.look(h) != nil {
			return
		}
	}
}

func (a *actor) look(h *lock.Held) error {
	o := history.Op{Client: a.number, Kind: history.Look, Token: int64(h.Token()), Call: a.w.rec.Now(), Outcome: history.OK}
	progress := a.opts.Stall > 0 && a.r.IntN(2) == 0
	look := h.Err
	if progress {
		look = h.Progress
	}
	err := look()
	if o.Return = a.w.rec.Now(); err != nil {
		o.Outcome, o.Err = history.Refused, err.Error()
	} else if progress {
		a.w.truth.progressed(a.wants, h, o.Return)
	}
	a.add(a.wants, o)
	return err
}

func (a *actor) guarded(h *lock.Held) {
	a.log(history.Guarded, a.patience(), int64(h.Token()), func(ctx context.Context) (history.Outcome, int64, error) {
		_, err := a.client.KV().Txn(ctx, kv.Txn{
			Guards: h.Guards(),
			Then:   []kv.Op{kv.Put("data", fmt.Appendf(nil, "%d", h.Token()))},
		})
		switch {
		case err == nil:
			return history.OK, 0, nil
		case errors.Is(err, kv.ErrFenced):
			return history.Refused, 0, err
		}
		return history.Unknown, 0, err
	})
}

// fenced writes to storage outside of etcd, guarded by one of the names or by its slot, after a
// while, as a slow write would.
func (a *actor) fenced(h *lock.Held) {
	of := a.wants[a.r.IntN(len(a.wants))]
	a.logOf([]want{of}, history.Fenced, time.Hour, int64(h.Token()), func(context.Context) (history.Outcome, int64, error) {
		time.Sleep(between(a.r, 0, a.w.plan.TTL))
		var stale *fencing.StaleError
		admit := a.w.gate.Admit
		if of.shared {
			admit = a.w.gate.AdmitShared
		}
		resource, token := of.name, h.Token()
		if h.Slot() >= 0 {
			var ok bool
			if resource, token, ok = fencing.FromContext(h.Context()); !ok {
				a.w.fail("the context of a slot has no token")
			}
		}
		switch err := admit(resource, token); {
		case errors.As(err, &stale):
			return history.Refused, 0, err
		default:
			return history.OK, 0, err
		}
	})
}

func (a *actor) release(h *lock.Held) {
	for range 20 {
		var err error
		a.log(history.Release, a.patience(), int64(h.Token()), func(ctx context.Context) (history.Outcome, int64, error) {
			if err = h.Release(ctx); errors.Is(err, lock.ErrLost) {
				return history.Refused, 0, err
			} else if err != nil {
				return history.Unknown, 0, err
			}
			return history.OK, 0, nil
		})
		if h.Err() == nil {
			a.w.fail("released, and Err is nil: token %d", h.Token())
		}
		if err == nil || errors.Is(err, lock.ErrLost) {
			return
		}
	}
}

// handOn detaches the session and takes it over in the same process, with the lock.
func (a *actor) handOn(h *lock.Held) {
	a.tenure.detached.Store(true)
	handle, at := a.sess.Detach(), a.w.rec.Now()
	if handle == (lease.Handle{}) {
		a.tenure.over()
		return
	}
	if h.Err() == nil {
		a.w.fail("detached, and Err is nil: token %d", h.Token())
	}
	var err error
	a.log(history.Other, a.patience(), 0, func(ctx context.Context) (history.Outcome, int64, error) {
		a.sess, err = a.client.NewSession(ctx, lease.Options{TTL: a.w.plan.TTL, Resume: handle})
		return verdict(err), 0, err
	})
	if err != nil {
		a.w.truth.leaseLeft(a.tenure.lease, at)
		return
	}
	a.sit(nil)
	if a.r.IntN(2) == 0 { // what its predecessor has agreed to counts all the same
		a.opts.AtLeast, a.opts.MaxHold = 0, 0
	}
	a.log(history.Other, a.patience(), 0, func(ctx context.Context) (history.Outcome, int64, error) {
		h, err = a.resume(ctx, h)
		return verdict(err), 0, err
	})
	switch {
	case err == nil:
		a.resumed(h)
	case !errors.Is(err, lock.ErrLost): // a lock that is not resumed stays held until its session ends
		a.log(history.Other, a.patience(), 0, func(ctx context.Context) (history.Outcome, int64, error) {
			err := a.sess.Close(ctx)
			return verdict(err), 0, err
		})
	}
}

// resume resumes what it held.
func (a *actor) resume(ctx context.Context, h *lock.Held) (next *lock.Held, err error) {
	switch {
	case len(h.Names()) > 1:
		next, err = a.multi().Resume(ctx, h.Keys(), h.Token())
	case h.Mode() == lock.ModeSlot:
		next, err = a.semaphore().Resume(ctx, h.Key(), h.Token())
	default:
		next, err = lock.New(a.sess, h.Name(), a.opts).Resume(ctx, h.Key(), h.Token())
	}
	if next != nil && (next.Slot() != h.Slot() || next.Mode() != h.Mode()) {
		a.w.fail("slot %d, %v, is resumed as slot %d, %v", h.Slot(), h.Mode(), next.Slot(), next.Mode())
	}
	return took(a.w, next, err)
}

// resumed releases what was taken over. Its token is its predecessor's, so its looks are not
// part of the history, where what has ended stays ended.
func (a *actor) resumed(h *lock.Held) {
	time.Sleep(between(a.r, 0, a.w.plan.TTL))
	for range 20 {
		ctx, cancel := context.WithTimeout(context.Background(), a.patience())
		held := h.Err() == nil
		err := h.Release(ctx)
		cancel()
		if held || !errors.Is(err, lock.ErrLost) {
			a.w.truth.gaveBack(a.wants, h)
		}
		if err == nil || errors.Is(err, lock.ErrLost) {
			return
		}
	}
}
