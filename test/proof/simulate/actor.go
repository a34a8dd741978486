package simulate

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/kv"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
	"github.com/pawl-locks/pawl/test/proof/history"
)

// names are the locks that the clients of a scenario want: the first, or both.
var names = []string{"lock", "lock2"}

// actor is a client that wants a lock again and again.
type actor struct {
	w      *world
	number int
	r      *rand.Rand
	client *pawl.Client
	sess   *pawl.Session
	name   string // of the lock that it wants this time
	shared bool   // it wants it shared
	calm   bool   // the faults have ended
}

// log makes a call and adds it to the history.
func (a *actor) log(kind history.Kind, limit time.Duration, token int64, f func(ctx context.Context) (history.Outcome, int64, error)) {
	o := history.Op{Client: a.number, Kind: kind, Name: a.name, Token: token, Shared: kind == history.Acquire && a.shared, Call: a.w.rec.Now()}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	o.Limit = o.Call + limit
	var err error
	var got int64
	if o.Outcome, got, err = f(ctx); got != 0 {
		o.Token = got
	}
	if err != nil {
		o.Err = err.Error()
	}
	o.Return = a.w.rec.Now()
	a.w.rec.Add(o)
}

func verdict(err error) history.Outcome {
	switch {
	case err == nil:
		return history.OK
	case errors.Is(err, kv.ErrUnknown):
		return history.Unknown
	}
	return history.Refused
}

// patience is how long a call may take.
func (a *actor) patience() time.Duration {
	if a.calm {
		return 10*a.w.plan.TTL + 30*time.Second // the others may be first
	}
	return between(a.r, 10*time.Millisecond, 2*a.w.plan.TTL)
}

// run acts until the faults have ended.
func (a *actor) run() {
	for {
		a.turn()
		select {
		case <-a.w.ended:
			return
		case <-time.After(between(a.r, 0, a.w.plan.TTL)):
		}
	}
}

// last takes a lock once more, when the faults have ended, and closes.
func (a *actor) last() {
	a.calm = true
	got := false
	for n := 0; n < 5 && !got; n++ {
		got = a.turn()
	}
	if !got {
		ops := a.w.rec.Ops()
		a.w.fail("client %d never got the lock again; at last: %v; in the queue: %q", a.number, ops[max(0, len(ops)-4):], a.w.truth.at())
	}
	if a.client != nil {
		_ = a.client.Close()
	}
}

// turn is one acquisition and what comes of it; it reports whether there was one.
func (a *actor) turn() bool {
	a.name, a.shared = names[a.r.IntN(a.w.plan.Names)], a.r.IntN(5) < 2
	if !a.ready() {
		return false
	}
	h := a.acquire()
	if h == nil {
		return false
	}
	a.work(h)
	switch n := a.r.IntN(12); {
	case a.calm || n > 2:
		a.release(h)
	case n == 0: // it forgets
		a.log(history.Other, a.patience(), 0, func(ctx context.Context) (history.Outcome, int64, error) {
			err := a.sess.Close(ctx)
			return verdict(err), 0, err
		})
	case n == 1:
		a.handOn(h)
	default: // it goes away
		a.log(history.Other, 3*time.Second, 0, func(context.Context) (history.Outcome, int64, error) {
			err := a.client.Close()
			return verdict(err), 0, err
		})
		a.client = nil
	}
	return true
}

// ready has a client and a session; false: not now.
func (a *actor) ready() bool {
	if a.client == nil {
		a.log(history.Other, a.patience(), 0, func(ctx context.Context) (history.Outcome, int64, error) {
			var err error
			a.client, err = pawl.Dial(ctx, a.w.config(a.number))
			return verdict(err), 0, err
		})
		a.sess = nil
		if a.client == nil {
			return false
		}
	}
	if a.sess != nil && a.sess.Err() == nil {
		return true
	}
	var err error
	a.log(history.Other, a.patience(), 0, func(ctx context.Context) (history.Outcome, int64, error) {
		a.sess, err = a.client.NewSession(ctx, lease.Options{TTL: a.w.plan.TTL})
		return verdict(err), 0, err
	})
	if errors.Is(err, pawl.ErrClusterChanged) { // this client is of no use any more
		_ = a.client.Close()
		a.client = nil
	}
	return err == nil
}

func (a *actor) acquire() (h *lock.Held) {
	m := lock.New(a.sess, a.name, lock.Options{})
	get, try := m.Acquire, m.TryAcquire
	if a.shared {
		get, try = m.AcquireShared, m.TryAcquireShared
	}
	if !a.calm && a.r.IntN(4) == 0 {
		get = try
	}
	a.log(history.Acquire, a.patience(), 0, func(ctx context.Context) (history.Outcome, int64, error) {
		var err error
		h, err = get(ctx)
		if (h == nil) == (err == nil) {
			a.w.fail("an error and a handle are both nil, or both set: %v, %v", h, err)
		}
		if err != nil {
			return history.Refused, 0, err
		}
		if h.Shared() != a.shared {
			a.w.fail("shared is %t of %q: token %d", h.Shared(), a.name, h.Token())
		}
		return history.OK, int64(h.Token()), nil
	})
	return h
}

// work looks at Err, and writes, for a while: a short one when others wait for the end.
func (a *actor) work(h *lock.Held) {
	most := 5
	if a.calm {
		most = 1
	}
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
	o := history.Op{Client: a.number, Kind: history.Look, Name: a.name, Token: int64(h.Token()), Call: a.w.rec.Now(), Outcome: history.OK}
	err := h.Err()
	if o.Return = a.w.rec.Now(); err != nil {
		o.Outcome, o.Err = history.Refused, err.Error()
	}
	a.w.rec.Add(o)
	return err
}

func (a *actor) guarded(h *lock.Held) {
	a.log(history.Guarded, a.patience(), int64(h.Token()), func(ctx context.Context) (history.Outcome, int64, error) {
		_, err := a.client.KV().Txn(ctx, kv.Txn{
			Guards: []kv.Guard{h.Guard()},
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

// fenced writes to storage outside of etcd, after a while, as a slow write does.
func (a *actor) fenced(h *lock.Held) {
	a.log(history.Fenced, time.Hour, int64(h.Token()), func(context.Context) (history.Outcome, int64, error) {
		time.Sleep(between(a.r, 0, a.w.plan.TTL))
		var stale *fencing.StaleError
		admit := a.w.gate.Admit
		if h.Shared() {
			admit = a.w.gate.AdmitShared
		}
		switch err := admit(a.name, h.Token()); {
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

// handOn detaches the session and takes it over itself, lock and all.
func (a *actor) handOn(h *lock.Held) {
	handle := a.sess.Detach()
	if handle == (lease.Handle{}) {
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
		return
	}
	a.log(history.Other, a.patience(), 0, func(ctx context.Context) (history.Outcome, int64, error) {
		h, err = lock.New(a.sess, a.name, lock.Options{}).Resume(ctx, h.Key(), h.Token())
		return verdict(err), 0, err
	})
	switch {
	case err == nil:
		a.resumed(h)
	case !errors.Is(err, lock.ErrLost): // what is not resumed stays held until its session ends
		a.log(history.Other, a.patience(), 0, func(ctx context.Context) (history.Outcome, int64, error) {
			err := a.sess.Close(ctx)
			return verdict(err), 0, err
		})
	}
}

// resumed gives back what was taken over. Its token is its predecessor's, so its
// looks are not part of the history, where what has ended stays ended.
func (a *actor) resumed(h *lock.Held) {
	time.Sleep(between(a.r, 0, a.w.plan.TTL))
	for range 20 {
		ctx, cancel := context.WithTimeout(context.Background(), a.patience())
		err := h.Release(ctx)
		cancel()
		if err == nil || errors.Is(err, lock.ErrLost) {
			return
		}
	}
}
