package queue

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
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
// then it is held. Of a set of names it is the life of a key in the queue of each: it begins
// and ends with all of them. It is used once. What it is follows from its state, which changes
// in apply and nowhere else.
//
// Invariants: ended is nil while it is alive, and is replaced at most once, a release
// by the loss that it found; it is stored together with the state's end.
type Acquisition struct {
	s      *session.Session
	queue  Queue
	more   []Queue         // of a set: the queues of its other names
	set    *set            // what only a set has; nil: it is none
	permit *permit         // what only one of a semaphore has; nil: it is none
	keys   []string        // in queue, and in each of more; of a semaphore in the turnstile, and then see owned
	n      int64           // the sequence number
	named  bool            // an owner key goes with the own key
	parent context.Context // Acquire's: for its values only
	hook   session.Hook
	notice *notice // what an observer is notified of; nil: there is none

	ended    atomic.Pointer[ending]
	deleting turn                    // the right to send a release
	holdEnd  atomic.Pointer[holdEnd] // set once it is held; nil: there is none

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
	working  int     // calls of Do that have not returned
	promised clock.Instant
	keptTo   clock.Instant // until when the own keys stay, though it is given back; zero: they need not

	nested      bool // its enqueues do not compare that no semaphore uses the name: see kind.go
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
	var pre, own *watcher.Watch
	var others []*watcher.Watch
	if fx.Unfollow || fx.FollowSlots || fx.Follow != (state.Key{}) {
		pre, a.preWatch = a.preWatch, nil
	}
	if fx.WatchOwn {
		own, others = a.unwatched(fx.Own)
	}
	if fx.Unwatch {
		own, others = a.unwatched(state.All)
		a.permit.has(a.state.Own().Name)
	}
	woken := a.woken
	a.mu.Unlock()

	cancelAll(pre, own)
	cancelAll(others...)
	a.carryOut(fx, end, why)
	if fx.Wake {
		select {
		case woken <- struct{}{}:
		default: // nobody sleeps, or is woken already
		}
	}
	return fx
}

// carryOut does what an event asks for. An end comes first (rule H1), and an own watch
// before that of the predecessor: the successor watches the own key too, and shares it.
func (a *Acquisition) carryOut(fx state.Effects, end *ending, why error) {
	if end != nil {
		a.carryEnd(fx, end, why)
	}
	if fx.WatchOwn {
		a.watchOwn(fx.Own, fx.From)
	}
	if fx.Follow != (state.Key{}) {
		a.follow(fx.Follow, fx.From)
	}
	if fx.FollowSlots {
		a.followSlots(fx.From)
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

// Key is the whole key, namespace included; of a set, the first.
func (a *Acquisition) Key() string {
	if all := a.owned(); len(all) > 0 {
		return all[0]
	}
	return ""
}

// owned are the own keys.
func (a *Acquisition) owned() []string {
	if a.permit != nil {
		if slot := a.permit.slot.Load(); slot != nil {
			return *slot
		}
	}
	return a.keys
}

// AllKeys are Key, and those of a set's other names, in the order of the names.
func (a *Acquisition) AllKeys() []string { return slices.Clone(a.owned()) }

// queues are those that it has a key in, in the order of its keys.
func (a *Acquisition) queues() iter.Seq2[int, Queue] {
	return func(yield func(int, Queue) bool) {
		if !yield(0, a.queue) {
			return
		}
		for i, q := range a.more {
			if !yield(i+1, q) {
				return
			}
		}
	}
}

// queueAt is the queue that the i-th key is in. Where no allocation is to be made it is
// called in a loop instead of queues.
func (a *Acquisition) queueAt(i int) *Queue {
	if i == 0 {
		return &a.queue
	}
	return &a.more[i-1]
}

// isSet reports whether it is of several names.
func (a *Acquisition) isSet() bool { return len(a.more) > 0 }

// nameOf is the name whose queue the i-th key is in.
func (a *Acquisition) nameOf(i int) string {
	if i > 0 && i <= len(a.more) {
		return a.more[i-1].Name
	}
	return a.queue.Name
}

// of says, in an error's text, which key it is: of a set with its name.
func (a *Acquisition) of(i int) string {
	if i < 0 || i >= len(a.owned()) {
		i = 0
	}
	if !a.isSet() {
		return strconv.Quote(a.Key())
	}
	return fmt.Sprintf("of %q, %q", a.nameOf(i), a.owned()[i])
}

// Shared reports whether it holds together with others.
func (a *Acquisition) Shared() bool { return a.queue.Shared }

// Name is the queue's name as it was given.
func (a *Acquisition) Name() string { return a.queue.Name }

// Token is the create revision of Key.
func (a *Acquisition) Token() fencing.Token { return fencing.Token(a.own().Create) }

// Guard is a comparison of Key's create revision with Token. A transaction with
// it is refused here once Err is not nil, and by the server in any case.
func (a *Acquisition) Guard() kv.Guard { return kvinside.Guard(a.Key(), a.Token(), a).(kv.Guard) }

// Guards are Guard for each of AllKeys.
func (a *Acquisition) Guards() (all []kv.Guard) {
	for _, key := range a.owned() {
		all = append(all, kvinside.Guard(key, a.Token(), a).(kv.Guard))
	}
	return all
}

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
		a.ctx, a.cancel = context.WithCancelCause(a.carry(context.WithoutCancel(a.parent), a.queue, token))
		if e := a.ended.Load(); e != nil && e.known() && !e.released {
			a.cancel(e.err)
		}
	}
	return a.ctx
}

// ContextFor returns a child of ctx that carries the token for one of its names, in the
// mode in which that is held; for another name, one that carries none.
func (a *Acquisition) ContextFor(ctx context.Context, name string) context.Context {
	for _, q := range a.queues() {
		if q.Name == name {
			return a.carry(ctx, q, a.Token())
		}
	}
	return fencing.NewContext(ctx, "", 0)
}

// Keys implements session.Acquisition.
func (a *Acquisition) Keys() (own []string, predecessor string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.state.Own().Create == 0 {
		return nil, "" // not known to be there
	}
	p, _ := a.state.Predecessor()
	return a.owned(), p.Name
}
