package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

var (
	// ErrClosed is the reason for the end of everything that this process itself has closed.
	ErrClosed = errors.New("closed by this process")

	// ErrChanged says that the endpoints lead to another etcd cluster than the one first reached, or
	// that the cluster's revision went back, as it does when an older snapshot is restored. It is
	// final.
	ErrChanged = errors.New("another etcd cluster answers, or its revision went back")

	// ErrUnknown says that a failed request may have been applied.
	ErrUnknown = errors.New("outcome unknown: it may have been applied")
)

// Outcome is what is known about a request that failed.
type Outcome int

const (
	// NotApplied means that the request certainly changed nothing, and never will.
	NotApplied Outcome = iota
	// Answered means that the server executed or refused the request, and that its answer does not say
	// which. No copy of the request can be applied any more, so reading or deleting what it would have
	// written settles it.
	Answered
	// Unknown means that the request may have been applied, or may still be. Not finding what it would
	// have written proves nothing.
	Unknown
)

// Error is the error of a failed request. It matches ErrUnknown unless its Outcome is NotApplied. If
// the end of the caller's context ended the request, it also matches that (context.Canceled or
// DeadlineExceeded, and the cause). A time limit of this package does not count as the end of the
// caller's context.
type Error struct {
	Op       string     // the operation: "txn"
	Endpoint string     // of the last try; empty if there was none
	Outcome  Outcome    // of all tries together
	Code     codes.Code // of the last try
	Err      error      // of the last try, or the reason why it was not sent

	ended error // why the caller's context ended, or nil if it has not
}

// NotSent is the error of a request that was never sent, because ctx ended or because of why.
func NotSent(ctx context.Context, op string, why error) error {
	return withheld(ctx, op, NotApplied, why)
}

// NotAnswered is the error of a request that was sent, and for which its caller with ctx no longer
// waits.
func NotAnswered(ctx context.Context, op string) error { return withheld(ctx, op, Unknown, nil) }

// Unclear is the error of a request whose answer does not show its outcome.
func Unclear(op string, why error) error { return &Error{Op: op, Outcome: Unknown, Err: why} }

func withheld(ctx context.Context, op string, o Outcome, why error) error {
	e := &Error{Op: op, Outcome: o, Err: why, ended: EndOf(ctx)}
	if e.ended != nil {
		e.Code = status.FromContextError(e.ended).Code()
	}
	return e
}

// Renamed returns err, the error of a shared request, as the error of op.
func Renamed(op string, err error) error { return edited(err, func(e *Error) { e.Op = op }) }

// Doubtful returns err, the error of the last try of a request, with outcome Unknown, because an
// earlier try may have been applied.
func Doubtful(err error) error { return edited(err, func(e *Error) { e.Outcome = Unknown }) }

// edited returns a copy of the *Error in err that edit has changed. It returns err if there is none; the
// outcome is Unknown then (see OutcomeOf).
func edited(err error, edit func(*Error)) error {
	var e *Error
	if !errors.As(err, &e) {
		return err
	}
	changed := *e
	edit(&changed)
	return &changed
}

// Error names the operation, the endpoint, the outcome if it is unknown, and the cause.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Op)
	if e.Endpoint != "" {
		fmt.Fprintf(&b, " at %s", e.Endpoint)
	}
	if e.Outcome != NotApplied {
		fmt.Fprintf(&b, ": %s", ErrUnknown)
	}
	if e.ended != nil {
		fmt.Fprintf(&b, ": %s", e.ended)
	}
	late := e.Code == codes.DeadlineExceeded || e.Code == codes.Canceled
	switch {
	case e.Err == nil, e.ended != nil && late: // adds nothing
	case e.ended == nil && e.Code == codes.DeadlineExceeded:
		fmt.Fprintf(&b, ": no answer in time: %s", textOf(e.Err))
	default:
		fmt.Fprintf(&b, ": %s", textOf(e.Err))
	}
	return b.String()
}

// Unwrap returns what the error matches.
func (e *Error) Unwrap() []error {
	errs := make([]error, 0, 3)
	if e.Err != nil {
		errs = append(errs, e.Err)
	}
	if e.Outcome != NotApplied {
		errs = append(errs, ErrUnknown)
	}
	if e.ended != nil {
		errs = append(errs, e.ended)
	}
	return errs
}

// EndOf returns why ctx ended, or nil if it has not. The error matches both ctx.Err and its cause. A
// deadline that has passed is an end even before the context's timer has run, because a server that
// received the deadline may give up in the same instant.
func EndOf(ctx context.Context) error {
	err := ctx.Err()
	if err == nil {
		if end, ok := ctx.Deadline(); ok && !time.Now().Before(end) {
			return context.DeadlineExceeded
		}
		return nil
	}
	cause := context.Cause(ctx)
	if graced := (graceEnded{}); errors.As(cause, &graced) {
		return graced.error
	}
	if !errors.Is(cause, err) {
		return fmt.Errorf("%w: %w", err, cause)
	}
	return cause
}

// Grace is how long a call may continue after its context's end, to send what it still has to send. It
// is less than the 100 ms within which every call returns.
const Grace = 80 * time.Millisecond

// WithGrace returns a context with the values of ctx that ends d after ctx does, or when cancel is
// called. The caller must call cancel, which does nothing for a ctx that never ends. EndOf returns the same
// for it as for ctx.
func WithGrace(ctx context.Context, d time.Duration) (graced context.Context, cancel context.CancelFunc) {
	if ctx.Done() == nil {
		return ctx, func() {}
	}
	graced, end := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		time.AfterFunc(d, func() { end(graceEnded{EndOf(ctx)}) })
	})
	return graced, func() {
		stop()
		end(context.Canceled)
	}
}

// Apart returns a context without values that ends when ctx does, or when leave is called. Nothing that is
// done with it calls a method of ctx, which may be of a caller's type and stand still (rule T6), so it is for
// what others wait for too. The caller must call leave, at a moment at which nobody waits for it. EndOf
// returns the same for it as for ctx.
func Apart(ctx context.Context) (apart context.Context, leave func()) {
	if ctx.Done() == nil {
		return context.Background(), func() {}
	}
	apart, end := context.WithCancelCause(context.Background())
	stop := context.AfterFunc(ctx, func() { end(graceEnded{EndOf(ctx)}) })
	return apart, func() {
		end(context.Canceled)
		stop()
	}
}

// graceEnded is the cause of the end of a context of WithGrace or Apart, and wraps the end of the caller's
// context.
type graceEnded struct{ error }

func (g graceEnded) Unwrap() error { return g.error }

// OutcomeOf returns the outcome of a request that failed with err, which must not be nil. It is
// Unknown unless err is or wraps an *Error.
func OutcomeOf(err error) Outcome {
	if e := (*Error)(nil); errors.As(err, &e) {
		return e.Outcome
	}
	return Unknown
}

// statusOf finds the gRPC status in err's tree as the server sent it. (status.FromError would put
// the wrapping errors' text into the message.)
func statusOf(err error) *status.Status {
	if err == nil {
		return nil
	}
	var s interface{ GRPCStatus() *status.Status }
	if !errors.As(err, &s) {
		return nil
	}
	return s.GRPCStatus()
}

// textOf is an error's text for people to read, without gRPC's "rpc error: code = … desc =".
func textOf(err error) string {
	if s, ok := err.(interface{ GRPCStatus() *status.Status }); ok {
		return s.GRPCStatus().Message()
	}
	return err.Error()
}
