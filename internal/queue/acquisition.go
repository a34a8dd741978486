package queue

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/kvinside"
	"github.com/pawl-locks/pawl/internal/queue/state"
	"github.com/pawl-locks/pawl/internal/session"
	"github.com/pawl-locks/pawl/internal/watcher"
	"github.com/pawl-locks/pawl/kv"
)

// An Acquisition is one queue key's life, from its enqueue to its end: first it waits,
// then it is held. It is used once. What it is follows from its state, which changes
// in apply and nowhere else.
//
// Invariants: ended is nil while it is alive, and is replaced at most once, a release
// by the loss that it found; it is stored together with the state's end.
type Acquisition struct {
	s      *session.Session
	queue  Queue
	key    string
	n      int64           // the sequence number
	parent context.Context // Acquire's: for its values only
	hook   session.Hook
	notice *notice // what an observer is notified of; nil: there is none

	ended     atomic.Pointer[ending]
	deleting  turn                    // the right to send a release
	holdEnd   atomic.Pointer[holdEnd] // set once it is held; nil: there is none
	keepUntil clock.Instant           // set before the caller has it; zero: its key need not stay

	mu       sync.Mutex
	state    state.Acquisition
	stop     context.CancelFunc // ends an Acquire under way
	woken    chan struct{}      // wakes the Acquire that sleeps; nil where none has slept
	ownWatch *watcher.Watch
	preWatch *watcher.Watch // of the predecessor
	ctx      context.Context
	cancel   context.CancelCauseFunc
	done     chan struct{}
	works    []*work // of Do, to be cancelled at loss
	pending  bool    // a release goes on in the background
	promised clock.Instant

	kindChecked bool // whether it waits for one of its own kind: see kind.go
}

// None is what a nil handle holds: an acquisition that has ended and was never held.
var None = func() *Acquisition {
	a := &Acquisition{parent: context.Background()}
	a.state.Apply(state.GaveUp{})
	a.ended.Store(a.decided(errors.New("not held: nil handle"), false))
	// Made now, for all: one made at a first call inside a synctest bubble could
	// not be used in any other.
	_, _ = a.Done(), a.Context()
	return a
}()

// apply takes ev in: it is the one place where the state changes. Then it carries the
// effects out, without the mutex. why is the cause of an end that ev may bring; nil
// where it is found out.
func (a *Acquisition) apply(ev state.Event, why error) state.Effects {
	a.mu.Lock()
	fx := a.state.Apply(ev)
	var end *ending
	if fx.End != state.Alive {
		end = a.endsAs(fx, why)
		a.ended.Store(end)
	}
	var dropped [2]*watcher.Watch
	if fx.Unfollow || fx.Follow != (state.Key{}) {
		dropped[0], a.preWatch = a.preWatch, nil
	}
	if fx.WatchOwn {
		dropped[1], a.ownWatch = a.ownWatch, nil
	}
	woken := a.woken
	a.mu.Unlock()

	for _, w := range dropped {
		if w != nil {
			w.Cancel()
		}
	}
	a.carry(fx, end, why)
	if fx.Wake {
		select {
		case woken <- struct{}{}:
		default: // nobody sleeps, or is woken already
		}
	}
	return fx
}

// carry does what an event asks for. An end comes first (rule H1), and an own watch
// before that of the predecessor: the successor watches the own key too, and shares it.
func (a *Acquisition) carry(fx state.Effects, end *ending, why error) {
	if end != nil {
		a.carryEnd(fx, end, why)
	}
	if fx.WatchOwn {
		a.watchOwn(fx.From)
	}
	if fx.Follow != (state.Key{}) {
		a.follow(fx.Follow, fx.From)
	}
	if fx.Read {
		a.readInBackground()
	}
	if fx.Remove {
		a.s.Leave(a.n)
	}
}

// read returns what f takes from the state.
func read[T any](a *Acquisition, f func(s *state.Acquisition) T) T {
	a.mu.Lock()
	defer a.mu.Unlock()
	return f(&a.state)
}

// own is the own key; its Create is 0 until it is known to be there.
func (a *Acquisition) own() state.Key { return read(a, (*state.Acquisition).Own) }

// Key is the whole key, namespace included.
func (a *Acquisition) Key() string { return a.key }

// Shared reports whether it holds together with others.
func (a *Acquisition) Shared() bool { return a.queue.Shared }

// Name is the queue's name as it was given.
func (a *Acquisition) Name() string { return a.queue.Name }

// Token is the create revision of Key.
func (a *Acquisition) Token() fencing.Token { return fencing.Token(a.own().Create) }

// Guard is a comparison of Key's create revision with Token. A transaction with
// it is refused here once Err is not nil, and by the server in any case.
func (a *Acquisition) Guard() kv.Guard { return kvinside.Guard(a.key, a.Token(), a).(kv.Guard) }

// Err is nil while it is held, and then says why not. It compares the clock at the
// call. In the moment in which the own key is known to be deleted but not yet
// whether its lease went with it, Err waits for that, at most causeWait.
func (a *Acquisition) Err() error {
	if e := a.ended.Load(); e != nil {
		return e.reason()
	}
	if err := a.s.Err(); err != nil {
		a.End(err)
		return a.ended.Load().reason()
	}
	if a.overheld() {
		return a.ended.Load().reason()
	}
	return nil
}

// over is why an Acquire under way is given up: what Err says, and else the end
// of ctx.
func (a *Acquisition) over(ctx context.Context) error {
	if err := a.Err(); err != nil {
		return err
	}
	return cluster.EndOf(ctx)
}

// Deadline is until when it is held unless the session is renewed, or until when it may be
// held, which is earlier, for time.Now and computed at the call; the zero Time once it has ended.
func (a *Acquisition) Deadline() time.Time {
	if a.Err() != nil {
		return time.Time{}
	}
	until := a.s.Deadline()
	if end := a.holdEnd.Load(); end != nil {
		if at := end.at.Time(clock.Now()); at.Before(until) {
			return at
		}
	}
	return until
}

// Done is closed when it is no longer held, release included.
func (a *Acquisition) Done() <-chan struct{} {
	_ = a.Err() // so that a deadline that has passed is seen now
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.done == nil {
		a.done = make(chan struct{})
		if e := a.ended.Load(); e != nil && e.known() {
			close(a.done)
		}
	}
	return a.done
}

// Context has the values of Acquire's context, and the token. It is cancelled,
// with the cause, at loss, and not at release. It is made at the first call and
// registered with no parent.
func (a *Acquisition) Context() context.Context {
	_ = a.Err()
	token := a.Token()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ctx == nil {
		a.ctx, a.cancel = context.WithCancelCause(a.queue.carry(context.WithoutCancel(a.parent), token))
		if e := a.ended.Load(); e != nil && e.known() && !e.released {
			a.cancel(e.err)
		}
	}
	return a.ctx
}

// Keys implements session.Acquisition.
func (a *Acquisition) Keys() (own, predecessor string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.state.Own().Create == 0 {
		return "", "" // not known to be there
	}
	p, _ := a.state.Predecessor()
	return a.key, p.Name
}
