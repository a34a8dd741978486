package fencetest

import (
	"fmt"
	"time"

	"github.com/pawl-locks/pawl/fencing"
)

// Kind distinguishes reads from writes.
type Kind int

// An operation reads or writes. A read registers its token.
const (
	Read Kind = iota + 1
	Write
)

// String returns "read" or "write".
func (k Kind) String() string {
	if k == Write {
		return "write"
	}
	return "read"
}

// Outcome is what the caller of an operation knows of it afterwards.
type Outcome int

// The outcomes of an operation.
const (
	Unknown    Outcome = iota // it may have been applied, once, at any time since its call
	Applied                   // it returned nil
	Refused                   // it returned a *fencing.StaleError
	NotApplied                // it returned an error that says that nothing was done
)

// String returns the name of the outcome.
func (o Outcome) String() string {
	return [...]string{"unknown", "applied", "refused", "not applied"}[o]
}

// An Op is one operation of a history. Call and Return are read from one clock for the whole
// history, Call before it was sent and Return after its answer came.
type Op struct {
	Who      string // for people to read
	Kind     Kind
	Resource string
	Token    fencing.Token
	Shared   bool   // the token is that of a shared lock
	Value    string // written, or read; "" if nothing was there
	Outcome  Outcome
	Highest  fencing.Token // of a refusal
	Call     time.Duration
	Return   time.Duration
}

// String is one line, for people to read.
func (o Op) String() string {
	mode := ""
	if o.Shared {
		mode = "shared "
	}
	s := fmt.Sprintf("[%v–%v] %s %v %q %stoken %d value %.40q: %v", o.Call, o.Return, o.Who, o.Kind, o.Resource, mode, int64(o.Token), o.Value, o.Outcome)
	if o.Outcome == Refused {
		s += fmt.Sprintf(", %d seen", int64(o.Highest))
	}
	return s
}

// A Violation is the first operation of a history, in the order of the answers, that a guard should
// not have let through or should not have refused.
type Violation struct {
	Rule    string // the rule that it broke
	Op      Op
	Against *Op // the other operation that shows it; nil if none is needed
}

// Error names rule and operations.
func (v *Violation) Error() string {
	s := "fencetest: " + v.Rule + "\n  " + v.Op.String()
	if v.Against != nil {
		s += "\n  against " + v.Against.String()
	}
	return s
}
