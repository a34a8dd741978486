package notify

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/pawl-locks/pawl/observe"
)

// A Feed is the events of one session, lock or candidacy, told in order and one at
// a time. A nil Feed tells nobody.
type Feed struct {
	t     *Teller
	mu    sync.Mutex
	queue []told
	busy  bool // somebody delivers
	full  bool // that something was left out is logged
}

type told struct {
	ctx context.Context
	ev  observe.Event
}

// most is how many events wait at the most. Of those that come beyond it only the
// latest stays, which is how a feed ends.
const most = 256

// Now tells ev before it returns, or has it told by whoever delivers already. No
// mutex may be held.
func (f *Feed) Now(ctx context.Context, ev observe.Event) {
	if f != nil && f.put(told{ctx, ev}) {
		f.deliver()
	}
}

// Later has ev told by the worker, and does not wait for it.
func (f *Feed) Later(ctx context.Context, ev observe.Event) {
	if f != nil && f.put(told{ctx, ev}) {
		f.t.hand(f)
	}
}

// put adds an event, and reports whether the caller is to see to its delivery. It
// logs without the mutex: a handler of logs is a user's code too.
func (f *Feed) put(e told) bool {
	begin, overflows := f.add(e)
	if overflows {
		f.t.log.Error("observer does not keep up: events are left out", "waiting", most)
	}
	return begin
}

// add adds an event; overflows: it is the first one that takes another's place.
func (f *Feed) add(e told) (begin, overflows bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.queue) < most {
		f.queue = append(f.queue, e)
	} else {
		f.queue[most-1] = e
		overflows, f.full = !f.full, true
	}
	begin, f.busy = !f.busy, true
	return begin, overflows
}

// next takes an event out; false: there is none, and nobody delivers any more.
func (f *Feed) next() (e told, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.queue) == 0 {
		f.queue, f.busy = nil, false
		return told{}, false
	}
	e = f.queue[0]
	f.queue = f.queue[1:]
	return e, true
}

// deliver calls the Observer until the queue is empty.
func (f *Feed) deliver() {
	for {
		e, ok := f.next()
		if !ok {
			return
		}
		f.call(e)
	}
}

// call tells the Observer of one event, and outlives its panic. Where the Observer
// ends the goroutine, as testing.T.FailNow does, the worker goes on.
func (f *Feed) call(e told) {
	returned := false
	defer func() {
		p := recover()
		switch {
		case p != nil:
			f.t.log.Error("observer panicked", "event", fmt.Sprintf("%T", e.ev), "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
		case !returned:
			f.t.hand(f)
		}
	}()
	f.t.to.Observe(e.ctx, e.ev)
	returned = true
}
