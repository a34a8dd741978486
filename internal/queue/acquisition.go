package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/hooks"
	"github.com/pawl-locks/pawl/internal/queue/state"
	"github.com/pawl-locks/pawl/internal/session"
	"github.com/pawl-locks/pawl/internal/txn"
	"github.com/pawl-locks/pawl/internal/watcher"
	"github.com/pawl-locks/pawl/kv"
	"github.com/pawl-locks/pawl/observe"
)

// An Acquisition tracks one queue key from its enqueue to its end: it first waits and is then held.
// An acquisition of a set of names has a key in the queue of each name, and begins and ends with
// all of them. It is used once. Everything that it reports follows from its state, which only
// Session.Step changes.
//
// Invariants: ended is nil while the acquisition is alive. It is stored in the critical section in
// which the state ends. It is replaced at most once, when a release finds that the lock had been
// lost before.
type Acquisition struct {
	s           *session.Session
	queues      []Queue           // one for each name
	set         *set              // what only a set has; nil if it is not a set
	permit      *permit           // what only an acquisition of a semaphore has; nil for all others
	keys        []string          // its keys, one in each of queues; of a semaphore only the turnstile key (see owned)
	hasOwnerKey bool              // an owner key is put with its key, or may have been
	work        *session.Deferral // what keeps its key after a loss; if nil, whatever defers the revocation of the lease
	parent      context.Context   // the context given to Acquire, used for its values only
	notice      *notice           // what an observer is notified of; nil if there is no observer

	ended   atomic.Pointer[ending]
	callers atomic.Pointer[callers] // notified of the end; nil unless somebody has to be
	pending atomic.Bool             // a release continues in the background

	mixedChecked atomic.Bool // it has checked whether it waits for a lock or a candidate (see checkMixed)

	mu       *sync.Mutex   // the session's, which guards what follows
	entry    session.Entry // its machine, and what is known of its keys
	watches  watches
	wanted   *wanted            // nil until somebody calls Wanted
	endQuery context.CancelFunc // cancels the query under way; nil if there is none
	woken    chan struct{}      // wakes a sleeping Acquire; nil if none has slept
	stop     context.CancelFunc // cancels the Acquire under way; nil if there is none
	deleting turn               // one release at a time is sent
}

// None stands in for the acquisition of a nil handle. It has ended and was never held.
var None = func() *Acquisition {
	a := &Acquisition{queues: make([]Queue, 1), parent: context.Background(), mu: &sync.Mutex{}}
	a.entry.Apply(state.GaveUp{})
	a.ended.Store(&ending{err: errors.New("not held: nil handle")})
	// Both are made here, once, because a channel that a first call makes inside a synctest bubble
	// cannot be used in any other bubble.
	_, _ = a.Done(), a.Context()
	return a
}()

// apply gives ev to the state, and then carries out what follows. why is the cause of an end that ev may
// bring; it is nil if the effects say it.
func (a *Acquisition) apply(ev state.Event, why error) step {
	a.mu.Lock()
	did := a.step(ev, why)
	a.mu.Unlock()
	a.carryOut(did)
	return did
}

// A step is what an event has changed, and what is left to be carried out, without the mutex.
type step struct {
	state.Effects
	end      *ending            // nil unless it has ended
	unused   []*watcher.Watch   // to be cancelled
	gap      int64              // unless 0, up to there its watches may have missed something
	woken    chan struct{}      // of who sleeps
	endQuery context.CancelFunc // of a query that is no longer needed
	stop     context.CancelFunc // of an Acquire that has to return
}

// step gives ev to the state. Once the acquisition has begun, nothing else changes it. The caller holds the
// mutex, and calls carryOut without it.
func (a *Acquisition) step(ev state.Event, why error) (did step) {
	fx := a.s.Step(&a.entry, ev)
	if fx.End != state.Alive {
		a.ended.Store(a.endsAs(fx, why))
	}
	return a.leaves(fx)
}

// leaves returns what the effects of a step leave to be carried out. The caller holds the mutex.
func (a *Acquisition) leaves(fx state.Effects) (did step) {
	did = step{Effects: fx, woken: a.woken}
	if fx.End != state.Alive {
		did.end = a.ended.Load()
		did.unused = a.unwatch()
		if fx.End != state.GivenUp {
			did.stop = a.stop
		}
	} else {
		did.unused = a.watches.take(fx)
	}
	if phase := a.entry.Phase; phase == state.Waiting || phase == state.Full {
		a.watches.expect(fx)
	}
	did.gap = a.watches.missed()
	if fx.Unwatch {
		a.permit.setSlot(a.entry.Own.Name)
	}
	if a.entry.Phase >= state.Held {
		a.stop = nil
	}
	if a.endQuery != nil && a.entry.Next() != state.Query {
		did.endQuery = a.endQuery
	}
	return did
}

// carryOut carries out what is left of a step. The end comes first (rule H1). The effects of two steps are
// carried out in no order, so what stores something asks the state again.
func (a *Acquisition) carryOut(did step) {
	if did.endQuery != nil {
		did.endQuery()
	}
	if did.end != nil {
		if did.stop != nil {
			// It calls methods of Acquire's context, which may stand still.
			go did.stop()
		}
		a.notify(did.end)
	}
	cancel(did.unused)
	if did.end != nil {
		a.carryEnd(did.Effects, did.end)
	}
	if did.WatchOwn {
		a.watchOwn(did.Own, did.From)
	}
	if did.Follow != (state.Key{}) {
		a.follow(did.Follow, did.From)
	}
	if did.FollowSlots {
		a.followSlots(did.From)
	}
	if did.Read {
		a.readInBackground()
	}
	if did.gap != 0 {
		a.catchUp(did.gap)
	}
	if did.Wake {
		select {
		case did.woken <- struct{}{}:
		default: // nobody sleeps, or a wakeup is pending
		}
	}
}

// ask returns what f says of the entry. It may have changed by then.
func ask[T any](a *Acquisition, f func(*session.Entry) T) T {
	a.mu.Lock()
	defer a.mu.Unlock()
	return f(&a.entry)
}

// next returns what the goroutine that acquires does next.
func (a *Acquisition) next() state.Step { return ask(a, (*session.Entry).Next) }

// own returns its key, for a set the first one. Create is 0 until the key is known to exist.
func (a *Acquisition) own() state.Key {
	return ask(a, func(e *session.Entry) state.Key { return e.Own })
}

// endedBy returns how it ended.
func (a *Acquisition) endedBy() state.End {
	return ask(a, func(e *session.Entry) state.End { return e.End })
}

// predecessor returns the key that it waits for.
func (a *Acquisition) predecessor() state.Key {
	return ask(a, func(e *session.Entry) state.Key { return e.Predecessor })
}

// Key returns the whole key, namespace included; for a set, the first of its keys.
func (a *Acquisition) Key() string {
	if all := a.owned(); len(all) > 0 {
		return all[0]
	}
	return ""
}

// owned returns the names of its keys.
func (a *Acquisition) owned() []string {
	if a.permit != nil {
		if slot := a.permit.slot.Load(); slot != nil {
			return *slot
		}
	}
	return a.keys
}

// AllKeys returns the names of its keys; those of a set are in the order of its names.
func (a *Acquisition) AllKeys() []string { return slices.Clone(a.owned()) }

// isSet reports whether it is an acquisition of several names.
func (a *Acquisition) isSet() bool { return len(a.queues) > 1 }

// of describes the i-th key for an error's text: quoted, and for a set with its name.
func (a *Acquisition) of(i int) string {
	if i < 0 || i >= len(a.owned()) {
		i = 0
	}
	if !a.isSet() {
		return strconv.Quote(a.Key())
	}
	return fmt.Sprintf("of %q, %q", a.queues[i].Name, a.owned()[i])
}

// Mode returns the mode in which it is acquired. That of a set is shared if all its names are.
func (a *Acquisition) Mode() observe.Mode {
	mode := a.queues[0].mode()
	for _, q := range a.queues[1:] {
		if !q.Shared {
			mode = observe.Exclusive
		}
	}
	return mode
}

// Name returns the queue's name as it was given; for a set, the first of its names.
func (a *Acquisition) Name() string { return a.queues[0].Name }

// Names returns its names as they were given.
func (a *Acquisition) Names() (all []string) {
	for _, q := range a.queues {
		all = append(all, q.Name)
	}
	return all
}

// Guard returns a comparison of Key's create revision with Token. A transaction with it is refused
// locally once Err is not nil, and by the server in any case. A set has the zero Guard, which is
// always refused, because it would say nothing of the other names.
func (a *Acquisition) Guard() kv.Guard {
	if a.isSet() {
		return kv.Guard{}
	}
	return a.guard(a.Key())
}

// Guards returns the guards of AllKeys.
func (a *Acquisition) Guards() (all []kv.Guard) {
	for _, key := range a.owned() {
		all = append(all, a.guard(key))
	}
	return all
}

func (a *Acquisition) guard(key string) kv.Guard {
	return hooks.KVGuard(key, a.Token(), a).(kv.Guard)
}

// Err returns nil while it is held, and then why it no longer is. It compares the clock at the
// call, does no I/O and does not block.
func (a *Acquisition) Err() error {
	if e := a.ended.Load(); e != nil {
		a.notify(e) // perhaps nobody has done that yet: a session marks all that it has, and then notifies
		return e.err
	}
	if err := a.s.Err(); err != nil {
		a.apply(state.EndOfSession{}, err) // for one that is not on its session's roster
		return a.endedMeanwhile()
	}
	if b := a.entry.Bound(); b != nil && a.overheld(b) {
		return a.endedMeanwhile()
	}
	return nil
}

// endedMeanwhile returns why it has ended, once its callers know it: the goroutine that marked the end may not have notified them yet.
func (a *Acquisition) endedMeanwhile() error {
	e := a.ended.Load()
	a.notify(e)
	return e.err
}

// interrupted returns why an Acquire under way gives up: the error of Err if there is one,
// otherwise the end of ctx.
func (a *Acquisition) interrupted(ctx context.Context) error {
	if err := a.Err(); err != nil {
		return err
	}
	return cluster.EndOf(ctx)
}

// Deadline returns until when it is held unless the session is renewed, or its end by its Limits if
// that is earlier. It is computed at the call, for comparison with time.Now. It is the zero Time
// once the acquisition has ended.
func (a *Acquisition) Deadline() time.Time { return a.Until().Time(clock.Now()) }

// Reads implements session.Dependent.
func (a *Acquisition) Reads() (all []session.Read) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.entry.Own.Create == 0 || a.entry.End != state.Alive {
		return nil // not known to exist, or no longer of interest
	}
	predecessor := a.entry.Predecessor.Name
	for i, key := range a.owned() {
		ops := []*pb.RequestOp{txn.Stat(key)}
		if i == 0 && predecessor != "" {
			ops = append(ops, txn.Stat(predecessor))
		}
		all = append(all, session.Read{Ops: ops, Seen: func(rev int64, shown []*mvccpb.KeyValue) {
			a.observe(rev, i, key, shown)
		}})
	}
	if a.wantedOpen() {
		for _, q := range a.queues {
			all = append(all, session.Read{Ops: q.lastConflicts(0), Seen: a.observeBehind})
		}
	}
	return all
}
