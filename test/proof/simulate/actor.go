package simulate

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/kv"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
	"github.com/pawl-locks/pawl/test/proof/history"
)

// names are the locks of a scenario's clients: the first, or more.
var names = []string{"lock", "lock2", "lock3"}

// actor is a client that repeatedly acquires a lock, or several at once.
type actor struct {
	w      *scenario
	number int
	r      *rand.Rand
	client *pawl.Client
	sess   *pawl.Session
	tenure *tenure      // sess, as truth knows it
	wants  []want       // of the locks that it wants this time
	opts   lock.Options // of these
	calm   bool         // the faults have ended
}

// want is a name, and the mode in which to acquire it: exclusive, shared, or as a semaphore with a
// limit.
type want struct {
	name   string
	shared bool
	limit  int // of a semaphore; 0 if it is a lock
	slot   int // of a semaphore, the slot that it has, from 1
}

// choose chooses what to acquire: a permit of a semaphore, for which others may use another limit,
// or some names, each shared or not. Now and then it uses the name of a semaphore for a lock, or
// the other way round, because the two are separate.
func (a *actor) choose() {
	a.wants = nil
	defer a.agree()
	errs := func() bool { return !a.calm && a.r.IntN(8) == 0 }
	of := a.r.Perm(a.w.plan.Names)
	if a.w.plan.semaphore(of[0]) != errs() {
		a.wants = append(a.wants, want{name: names[of[0]], limit: 1 + a.r.IntN(3)})
		return
	}
	for n, i := range of[:1+a.r.IntN(len(of))] {
		if n == 0 || !a.w.plan.semaphore(i) || errs() {
			a.wants = append(a.wants, want{name: names[i], shared: a.r.IntN(5) < 2})
		}
	}
}

// multi is the lock of several names at once.
func (a *actor) multi() *lock.Multi {
	var all []lock.Want
	for _, w := range a.wants {
		if w.shared {
			all = append(all, lock.Shared(w.name))
		} else {
			all = append(all, lock.Exclusive(w.name))
		}
	}
	return lock.NewMulti(a.sess, a.opts, all...)
}

// log makes a call and adds it to the history. A call on several names is one operation on each.
func (a *actor) log(kind history.Kind, limit time.Duration, token int64, f func(ctx context.Context) (history.Outcome, int64, error)) {
	a.logOf(a.wants, kind, limit, token, f)
}

// logOf is log for some of its names.
func (a *actor) logOf(wants []want, kind history.Kind, limit time.Duration, token int64, f func(ctx context.Context) (history.Outcome, int64, error)) {
	o := history.Op{Client: a.number, Kind: kind, Token: token, Call: a.w.rec.Now()}
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
	a.add(wants, o)
}

// add adds o to the history, as an operation on each of wants.
func (a *actor) add(wants []want, o history.Op) {
	for _, w := range wants {
		o.Name, o.Slot, o.Shared, o.Permits = w.name, w.slot, false, 0
		if o.Kind == history.Acquire {
			o.Shared, o.Permits = w.shared, w.limit
		}
		a.w.rec.Add(o)
	}
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
		return 10*a.w.plan.life() + 5*time.Minute // others may be first, and watch for who wants it
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

// last acquires a lock once more, when the faults have ended, and closes.
func (a *actor) last() {
	a.calm = true
	got := false
	for n := 0; n < 5 && !got; n++ {
		if got = a.turn(); !got {
			time.Sleep(a.w.plan.life()) // until what the faults left has expired
		}
	}
	if !got {
		ops := a.w.rec.Ops()
		a.w.fail("client %d never got the lock again; at last: %v; in the queue: %q", a.number, ops[max(0, len(ops)-4):], a.w.truth.at())
	}
	if a.client != nil {
		_ = a.client.Close()
	}
}

// turn is one acquisition and its use. It reports whether there was one.
func (a *actor) turn() bool {
	a.choose()
	if !a.ready() {
		return false
	}
	if a.once() {
		return true
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

// ready ensures that there is a client and a session. It returns false if that is not possible now.
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
		a.sess, err = a.client.NewSession(ctx, lease.Options{TTL: a.w.plan.TTL, LockDelay: a.w.plan.LockDelay})
		return verdict(err), 0, err
	})
	a.sit(err)
	if errors.Is(err, pawl.ErrClusterChanged) { // this client cannot be used any more
		_ = a.client.Close()
		a.client = nil
	}
	return err == nil
}

func (a *actor) acquire() (h *lock.Held) {
	try := !a.calm && a.r.IntN(4) == 0
	a.log(history.Acquire, a.patience(), 0, func(ctx context.Context) (history.Outcome, int64, error) {
		var err error
		if h, err = a.take(ctx, try); err != nil {
			return history.Refused, 0, err
		}
		return history.OK, int64(h.Token()), nil
	})
	if h != nil {
		a.w.truth.agreed(a.wants, h, a.opts)
	}
	return h
}

// take acquires what it wants.
func (a *actor) take(ctx context.Context, try bool) (*lock.Held, error) {
	if len(a.wants) > 1 {
		m := a.multi()
		get := m.Acquire
		if try {
			get = m.TryAcquire
		}
		h, err := get(ctx)
		return took(a.w, h, err)
	}
	if a.wants[0].limit > 0 {
		return a.takeSlot(ctx, try)
	}
	shared := a.wants[0].shared
	m := lock.New(a.sess, a.wants[0].name, a.opts)
	get := m.Acquire
	switch {
	case shared && try:
		get = m.TryAcquireShared
	case shared:
		get = m.AcquireShared
	case try:
		get = m.TryAcquire
	}
	h, err := get(ctx)
	if h != nil && h.Shared() != shared {
		a.w.fail("shared is %t of %q: token %d", h.Shared(), h.Name(), h.Token())
	}
	return took(a.w, h, err)
}

// semaphore is what it wants, as a semaphore.
func (a *actor) semaphore() *lock.Semaphore {
	return lock.NewSemaphore(a.sess, a.wants[0].name, a.wants[0].limit, a.opts)
}

// takeSlot acquires a permit.
func (a *actor) takeSlot(ctx context.Context, try bool) (*lock.Held, error) {
	get := a.semaphore().Acquire
	if try {
		get = a.semaphore().TryAcquire
	}
	p, err := get(ctx)
	if p != nil {
		if a.wants[0].slot = p.Slot() + 1; p.Slot() < 0 || p.Slot() >= a.wants[0].limit {
			a.w.fail("slot %d of %d: token %d", p.Slot(), a.wants[0].limit, p.Token())
		}
	}
	return took(a.w, p, err)
}

// took is the outcome of an acquisition. Either h or err is nil.
func took(w *scenario, h *lock.Held, err error) (*lock.Held, error) {
	if (h == nil) == (err == nil) {
		w.fail("an error and a handle are both nil, or both set: %v, %v", h, err)
	}
	return h, err
}
