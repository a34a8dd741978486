package elect

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/queue"
	"github.com/pawl-locks/pawl/lease"
)

// RunOptions are the options of Run. The zero value is the default.
type RunOptions struct {
	// EtcdLayout is that of Options.
	EtcdLayout bool
	// Value is the value of each campaign, which observers see.
	Value []byte
	// Session is the options of each session; Resume is refused.
	Session lease.Options
	// MinBackoff and MaxBackoff bound the wait before the next campaign. The first wait after a
	// term is up to MinBackoff, and the wait after each failed campaign up to twice as long as the
	// last one, at most MaxBackoff. Half of each wait is random. 0 means 500 ms and 30 s.
	MinBackoff, MaxBackoff time.Duration
	// Eligible is called in Run's goroutine: before each campaign, about once a second while Run waits
	// to be elected, and once more between the election and lead. When it returns false, Run leaves the
	// queue, or resigns the term before lead is called, so that another candidate leads, and calls it
	// again after up to MinBackoff. While lead runs it is not called. nil means always eligible. Its ctx
	// is Run's. Run waits for it, so it has to return soon.
	Eligible func(ctx context.Context) bool
	// Overrun is how long lead may run after its context's end before the Term is marked lost,
	// with ErrOverrun as the cause, and renewing stops; 0 means one TTL, as granted.
	Overrun time.Duration
	// Stall, unless 0, ends a term when lead has not called Term.Progress for that long: it is lost
	// with ErrStalled, its key is deleted, and another candidate leads, even while lead still runs. It is
	// for a lead that can hang while its session is renewed. The time counts from lead's beginning. Run
	// still waits for lead: Notify is called with Stalled, once the key is deleted or a second later, and a
	// program that cannot end its lead should exit then. At least 1 s; see lock.Options.Stall.
	Stall time.Duration
	// StopInJeopardy ends lead's context, with ErrJeopardy as the cause, as soon as less than a
	// third of the session's validity is left. lead then has that third to return in, while
	// nobody else can lead. When lead has returned, Run resigns, whatever lead returned, and
	// campaigns again. Without StopInJeopardy, lead's context ends at loss. (The event
	// observe.SessionInJeopardy comes earlier, at half.)
	StopInJeopardy bool
	// Notify is called with every change, in order, from Run's goroutine, except for Stalled, which
	// comes from another one while lead runs. No two calls are under way at once. It should return
	// quickly, because Run waits for it. nil means no call.
	Notify func(Event)
}

// The default bounds of the wait between two campaigns.
const (
	defaultMinBackoff = 500 * time.Millisecond
	defaultMaxBackoff = 30 * time.Second
)

// check returns what is wrong with o, naming the field.
func (o RunOptions) check() error {
	lo, hi := o.backoffs()
	switch {
	case o.MinBackoff < 0, o.MaxBackoff < 0, lo > hi:
		return fmt.Errorf("RunOptions.MinBackoff is %v and MaxBackoff %v, want 0 or more and the second not below the first", o.MinBackoff, o.MaxBackoff)
	case o.Overrun < 0:
		return fmt.Errorf("RunOptions.Overrun is %v, want 0 or more", o.Overrun)
	case o.Stall != 0 && o.Stall < queue.MinStall:
		return fmt.Errorf("RunOptions.Stall is %v, want 0 or at least %v", o.Stall, queue.MinStall)
	case o.Session.Resume != (lease.Handle{}):
		return errors.New("RunOptions.Session.Resume is set: a handle works once, and Run makes many sessions")
	}
	if err := checkValue(o.Value); err != nil {
		return fmt.Errorf("RunOptions.Value: %w", err)
	}
	if err := o.Session.Check(); err != nil {
		return fmt.Errorf("RunOptions.Session: %w", err)
	}
	return nil
}

// backoffs returns the bounds in force. If only one is given, the other one's default is
// adapted to it.
func (o RunOptions) backoffs() (lo, hi time.Duration) {
	lo, hi = o.MinBackoff, o.MaxBackoff
	if lo == 0 {
		lo = defaultMinBackoff
		if hi > 0 {
			lo = min(lo, hi)
		}
	}
	if hi == 0 {
		hi = max(defaultMaxBackoff, lo)
	}
	return lo, hi
}

// Kind says what an Event reports.
type Kind int

// The kinds of events.
const (
	Elected  Kind = iota + 1 // a campaign was won; lead is called next
	Lost                     // the term was lost, and lead has returned
	Resigned                 // lead returned during the term, or in jeopardy, and the term was resigned
	Retrying                 // a session or a campaign failed; Run tries again after a wait
	Stalled                  // the term was lost with ErrStalled, and lead still runs; Lost comes when it has returned
)

// String returns the kind's name in lower case.
func (k Kind) String() string {
	switch k {
	case Elected:
		return "elected"
	case Lost:
		return "lost"
	case Resigned:
		return "resigned"
	case Retrying:
		return "retrying"
	case Stalled:
		return "stalled"
	}
	return fmt.Sprintf("kind %d", int(k))
}

// An Event is one change that Run reports.
type Event struct {
	Kind  Kind
	Term  int64         // the number of this Run's term, from 1; of Retrying, that of the latest term, or 0 before the first
	Token fencing.Token // the token of that term; 0 if Term is 0
	// Err is the error of Term.Err for Lost and for Stalled, whose text also names lead, and what failed
	// for Retrying. For Resigned it says
	// that the resignation is not confirmed yet and continues in the background, or it is
	// ErrJeopardy if that ended lead's context.
	Err error
}
