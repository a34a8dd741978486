// Package history records what clients of a lock learned, and checks that it can be true.
//
// A history is a list of operations, each with the times of its call and its return on one clock.
// It is checked in two ways, which know nothing of how pawl works:
//
//   - Intervals: a holder certainly believes that it holds from its Acquire's return to its
//     last call of Err that returned nil, or to the call of a Release that returned nil. No
//     two such intervals of one name overlap, except those of shared
//     holders; tokens increase in the order of holders that exclude one another; Err never
//     returns nil after it returned an error; no fenced write was accepted out of order;
//     and a call that has a limit, as only those in bubbles have, returned within 100 ms of
//     it. Never more acquisitions
//     hold a semaphore than the least of their limits.
//   - Linearizable: there is an order of all operations, within their calls and
//     returns, in which a read-write mutex with fencing tokens, and a storage with
//     two registers, behave like that. porcupine searches for it.
//
// Each slot of a semaphore is a separate mutex, and all of them together are a counter with a
// limit. An operation on several names at once is one operation on each of them.
//
// A failed history is written to a file, with porcupine's visualization.
package history

import (
	"fmt"
	"sync"
	"time"
)

// Kind is what was called.
type Kind string

// These are the kinds of operations.
const (
	Acquire Kind = "acquire" // Acquire, TryAcquire or Campaign; with a token if it succeeded
	Look    Kind = "look"    // Err; OK is nil
	Release Kind = "release" // Release or Resign; OK is nil, Refused is ErrLost
	Guarded Kind = "guarded" // a transaction under the holder's guard; Refused is ErrFenced
	Fenced  Kind = "fenced"  // a write to storage that checks tokens; Refused is a stale one
	Other   Kind = "other"   // any other call, only checked for its duration
)

// Outcome is what the caller learnt.
type Outcome string

// The outcomes.
const (
	OK      Outcome = "ok"
	Refused Outcome = "refused" // for certain without effect
	Unknown Outcome = "unknown" // it may have had its effect, or have it later
)

// Op is one operation.
type Op struct {
	Client  int           `json:"client"`
	Kind    Kind          `json:"kind"`
	Name    string        `json:"name"`
	Slot    int           `json:"slot,omitempty"` // of a semaphore, from 1; 0 if it is a lock
	Token   int64         `json:"token,omitempty"`
	Shared  bool          `json:"shared,omitempty"`  // of an Acquire that holds together with others
	Permits int           `json:"permits,omitempty"` // of an Acquire of a slot, its semaphore's limit
	Call    time.Duration `json:"call"`
	Return  time.Duration `json:"return"`
	Limit   time.Duration `json:"limit,omitempty"` // its context's end; 0 if it is not to be checked
	Outcome Outcome       `json:"outcome"`
	Err     string        `json:"err,omitempty"`
}

// String is the operation on one line.
func (o Op) String() string {
	s := fmt.Sprintf("%s %q by %d: %s", o.Kind, o.Name, o.Client, o.Outcome)
	if o.Slot != 0 {
		s += fmt.Sprintf(", slot %d", o.Slot-1)
	}
	if o.Shared {
		s += ", shared"
	}
	if o.Token != 0 {
		s += fmt.Sprintf(", token %d", o.Token)
	}
	s += fmt.Sprintf(" [%v, %v]", o.Call, o.Return)
	if o.Err != "" {
		s += ": " + o.Err
	}
	return s
}

// Recorder collects a history. Its methods may be called from any goroutine.
type Recorder struct {
	now func() time.Duration

	mu  sync.Mutex
	ops []Op
}

// NewRecorder returns a Recorder with a clock, which is Clock for several processes, or Since for a
// bubble.
func NewRecorder(clock func() time.Duration) *Recorder { return &Recorder{now: clock} }

// Since is a clock of this process that begins now.
func Since() func() time.Duration {
	start := time.Now()
	return func() time.Duration { return time.Since(start) }
}

// Now reads the recorder's clock.
func (r *Recorder) Now() time.Duration { return r.now() }

// Add adds an operation.
func (r *Recorder) Add(o Op) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ops = append(r.ops, o)
}

// Ops returns what was recorded so far.
func (r *Recorder) Ops() []Op {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Op(nil), r.ops...)
}
