package matrix

import (
	"context"
	"errors"
	"testing"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/lock"
)

// waiter is an acquisition of a's that waits in the cell's queue.
type waiter struct {
	w    *fixture
	s    *pawl.Session
	done chan struct{}
	h    *lock.Held
	err  error
}

// waits makes a begin an acquisition, with a new session, and returns when the cell's queue has
// that many keys.
func waits(t *testing.T, w *fixture, keys int, acquire func(s *pawl.Session) (*lock.Held, error)) *waiter {
	q := &waiter{w: w, s: w.a.session(t), done: make(chan struct{})}
	go func() { // ends with the call's context, at the latest
		defer close(q.done)
		q.h, q.err = acquire(q.s)
	}()
	w.seen.appeared(t, w.name, keys)
	return q
}

// excused waits for the acquisition's end and reports whether it is an error by which a learnt
// of a loss, so that it is free to try again.
func (q *waiter) excused() bool {
	<-q.done
	return q.err != nil && q.w.fault.loses && !errors.Is(q.err, context.DeadlineExceeded)
}

// won adds what a waited for to all: it must have kept its position in the queue.
func (q *waiter) won(t *testing.T, all []*lock.Held) []*lock.Held {
	if q.excused() {
		return all
	}
	if !q.w.survives(t, q.err, "a waiter keeps its position") {
		return all
	}
	return append(all, q.h)
}

// queued has b hold the lock and a wait for it. next waits until a holds it too,
// and gives it back; kept: a's position in the queue must have been kept.
func (w *fixture) queued(t *testing.T) (h *lock.Held, next func(kept bool)) {
	h = w.b.hold(t, w.b.session(t))
	q := waits(t, w, 2, func(s *pawl.Session) (*lock.Held, error) { return w.a.acquire(t, s, w.name, recovery) })
	return h, func(kept bool) {
		if !kept && !q.excused() && q.err != nil {
			q.h, q.err = w.a.hold(t, q.s), nil
		}
		for _, h := range q.won(t, nil) {
			_ = w.a.once(h)
			_ = w.a.release(t, h)
		}
	}
}

// giveWay has b release what it holds: the first while the fault lasts, the others when it is
// healed.
func (w *fixture) giveWay(t *testing.T, all ...*lock.Held) {
	for i, h := range all {
		if i > 0 {
			<-w.healed
		}
		w.kept(t, w.b.release(t, h))
	}
}

// end makes a check all that it has won, while it has all of it, and release it.
func (w *fixture) end(t *testing.T, all []*lock.Held) {
	for _, h := range all {
		_ = w.a.once(h)
	}
	for _, h := range all {
		w.kept(t, w.a.release(t, h))
	}
}

// readersWait has two readers of a's wait for a writer while the fault strikes. They hold the
// lock together when it is gone.
func readersWait(t *testing.T, w *fixture) func(func()) {
	writer := w.b.hold(t, w.b.session(t))
	read := func(s *pawl.Session) (*lock.Held, error) { return w.a.acquireAs(t, s, w.name, true, recovery) }
	one, other := waits(t, w, 2, read), waits(t, w, 3, read)
	return func(strike func()) {
		strike()
		w.giveWay(t, writer)
		w.end(t, other.won(t, one.won(t, nil)))
	}
}

// writerWaits has a writer of a's wait for two readers while the fault strikes.
func writerWaits(t *testing.T, w *fixture) func(func()) {
	readers := []*lock.Held{w.b.holdAs(t, w.b.session(t), true), w.b.holdAs(t, w.b.session(t), true)}
	writer := waits(t, w, 3, func(s *pawl.Session) (*lock.Held, error) { return w.a.acquire(t, s, w.name, recovery) })
	return func(strike func()) {
		strike()
		w.giveWay(t, readers...)
		w.end(t, writer.won(t, nil))
	}
}

// setWaits has a set of a's wait for the holders of both of its names while the fault strikes.
func setWaits(t *testing.T, w *fixture) func(func()) {
	first := w.b.hold(t, w.b.session(t))
	second := untilHeld(t, w.b, w.b.session(t), "the second lock", func(s *pawl.Session) (*lock.Held, error) {
		return w.b.acquire(t, s, w.second(), patience)
	})
	set := waits(t, w, 2, func(s *pawl.Session) (*lock.Held, error) { return w.a.acquireSet(t, s, false, recovery) })
	return func(strike func()) {
		strike()
		w.giveWay(t, first, second)
		w.end(t, set.won(t, nil))
	}
}

// permitsWait has two acquisitions of a's wait for a semaphore whose slots are both taken while
// the fault strikes: one watches the slots, and the other is behind it in the turnstile.
func permitsWait(t *testing.T, w *fixture) func(func()) {
	slots := []*lock.Held{w.b.holdSlot(t, w.b.session(t)), w.b.holdSlot(t, w.b.session(t))}
	acquire := func(s *pawl.Session) (*lock.Held, error) { return w.a.acquireSlot(t, s, recovery) }
	first, behind := waits(t, w, 3, acquire), waits(t, w, 4, acquire)
	return func(strike func()) {
		strike()
		w.giveWay(t, slots...)
		for _, q := range []*waiter{first, behind} {
			if <-q.done; cluster.IsNoSpace(q.err) { // a take puts a key, and the caller learns that there is no space for it
				q.h, q.err = w.a.holdSlot(t, q.s), nil
			}
		}
		w.end(t, behind.won(t, first.won(t, nil)))
	}
}
