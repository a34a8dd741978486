package pawltest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/fencing/fencetest"
	"github.com/pawl-locks/pawl/lock"
)

type holderKey struct{}

// holder is one of the two that meet in a run. One goroutine at a time uses it.
type holder struct {
	sim   *simulation
	log   *history
	who   string
	token fencing.Token
	ctx   context.Context
	end   context.CancelCauseFunc

	holds    bool // it has the lock, so nothing may be refused
	alone    bool // it waits for no turn
	pauses   int
	cancelAt int // the pause in which ctx ends; 0 if none

	arrived chan bool     // true once it waits for a turn, false once it has ended
	proceed chan struct{} // it has the turn
}

func newHolder(ctx context.Context, end context.CancelCauseFunc, sim *simulation, log *history, i int, token fencing.Token) *holder {
	h := &holder{sim: sim, log: log, who: "AB"[i : i+1], token: token, end: end, holds: i == 1, arrived: make(chan bool, 1), proceed: make(chan struct{}, 1)}
	h.ctx = context.WithValue(ctx, holderKey{}, h)
	return h
}

func (h *holder) pause() {
	if h.alone {
		return
	}
	h.arrived <- true
	<-h.proceed
	if h.pauses++; h.pauses == h.cancelAt {
		h.end(lock.ErrLost)
	}
}

// calls makes the calls of the meeting. The holder that has the lock reads before it writes, and the
// other one afterwards.
func (h *holder) calls() {
	defer func() { h.arrived <- false }()
	if h.holds {
		h.read()
	}
	h.write("second")
	h.write("third")
	if !h.holds {
		h.read()
	}
}

func (h *holder) write(value string) {
	h.note(fencetest.Op{Kind: fencetest.Write, Value: fmt.Sprintf("%s's %s of run %d", h.who, value, h.sim.number)}, func(op *fencetest.Op) error {
		return h.sim.Write(h.ctx, op.Value)
	})
}

func (h *holder) read() {
	if h.sim.Read != nil {
		h.note(fencetest.Op{Kind: fencetest.Read}, func(op *fencetest.Op) (err error) {
			op.Value, err = h.sim.Read(h.ctx)
			return err
		})
	}
}

// note makes a call in its turn, and notes what came of it.
func (h *holder) note(op fencetest.Op, call func(*fencetest.Op) error) {
	h.pause()
	op.Who, op.Resource, op.Token, op.Call = h.who, "storage", h.token, h.log.now()
	err := call(&op)
	op.Outcome, op.Highest = fencetest.OutcomeOf(err)
	op.Return = h.log.now()
	h.log.add(op, err, h.holds)
}

// history is what the calls of a run did.
type history struct {
	mu      sync.Mutex
	ticks   time.Duration
	ops     []fencetest.Op
	lines   []string
	refused error // what was returned to a holder that has the lock
}

// now is later at each call, so that calls one after another do not seem to overlap.
func (l *history) now() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ticks++
	return l.ticks
}

func (l *history) add(op fencetest.Op, err error, holds bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ops = append(l.ops, op)
	l.lines = append(l.lines, fmt.Sprintf("  %d–%d: %s, token %d: %v %q: %v", op.Call, op.Return, op.Who, op.Token, op.Kind, op.Value, err))
	if err != nil && holds && l.refused == nil {
		l.refused = fmt.Errorf("the holder of the lock was refused: %w", err)
	}
}

// verdict is what the storage did wrong, or nil.
func (l *history) verdict() error {
	if l.refused != nil {
		return l.refused
	}
	return fencetest.Check(l.ops)
}

// String is a line for each call, in the order of their ends.
func (l *history) String() string { return strings.Join(l.lines, "\n") }
