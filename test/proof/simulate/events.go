package simulate

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/pawl-locks/pawl/observe"
)

// order is the order of events that package observe guarantees. It says in which state an event may
// come, and which state it leads to. "" is the state before the first event.
var order = map[[2]string]string{
	{"", "SessionGranted"}:         "valid",
	{"valid", "SessionRenewed"}:    "valid",
	{"valid", "SessionHedged"}:     "valid",
	{"valid", "SessionInJeopardy"}: "valid",
	{"valid", "SessionLost"}:       "", // its lease can be taken over
	{"valid", "SessionClosed"}:     "",

	{"", "LockEnqueued"}:       "queued",
	{"", "LockGaveUp"}:         "ended",
	{"", "LockAcquired"}:       "held", // resumed
	{"queued", "LockAcquired"}: "held",
	{"queued", "LockGaveUp"}:   "ended",
	{"held", "LockReleased"}:   "ended",
	{"held", "LockLost"}:       "ended",
}

// events is a client's Observer. It compares what is delivered to it with order.
type events struct {
	w      *scenario
	client int

	mu     sync.Mutex
	states map[string]string
	closed bool
}

func (w *scenario) newEvents(client int) *events {
	e := &events{w: w, client: client, states: map[string]string{}}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.observers = append(w.observers, e)
	return e
}

// Observe implements observe.Observer.
func (e *events) Observe(_ context.Context, ev observe.Event) {
	of := ""
	switch ev := ev.(type) {
	case observe.SessionGranted:
		of = fmt.Sprint("lease ", ev.Lease)
	case observe.SessionRenewed:
		of = fmt.Sprint("lease ", ev.Lease)
	case observe.SessionHedged:
		of = fmt.Sprint("lease ", ev.Lease)
	case observe.SessionInJeopardy:
		of = fmt.Sprint("lease ", ev.Lease)
	case observe.SessionLost:
		of = fmt.Sprint("lease ", ev.Lease)
	case observe.SessionClosed:
		of = fmt.Sprint("lease ", ev.Lease)
	case observe.LockEnqueued:
		of = fmt.Sprint("lock ", ev.ID)
	case observe.LockAcquired:
		of = fmt.Sprint("lock ", ev.ID)
		if resumed := ev.How == observe.Resumed; resumed != (e.state(of) == "") {
			e.w.fail("client %d: %s: acquired %q in the state %q", e.client, of, ev.How, e.state(of))
		}
	case observe.LockGaveUp:
		of = fmt.Sprint("lock ", ev.ID)
	case observe.LockReleased:
		of = fmt.Sprint("lock ", ev.ID)
	case observe.LockLost:
		of = fmt.Sprint("lock ", ev.ID)
	default:
		return
	}
	e.step(of, strings.TrimPrefix(fmt.Sprintf("%T", ev), "observe."))
}

func (e *events) state(of string) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.states[of]
}

func (e *events) step(of, ev string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	from := e.states[of]
	to, ok := order[[2]string{from, ev}]
	if !ok || e.closed {
		e.w.fail("client %d: %s: %s in the state %q (closed: %t)", e.client, of, ev, from, e.closed)
	}
	e.states[of] = to
}

// close reports what began and whose end was never delivered. The client is closed.
func (e *events) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	for of, state := range e.states {
		if state != "" && state != "ended" {
			e.w.fail("client %d: %s: at last %q", e.client, of, state)
		}
	}
}
