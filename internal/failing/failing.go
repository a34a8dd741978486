// Package failing says what a loop that tries again for ever has failed at: once when a failure
// begins, once when it ends, and in the error with which the loop ends. It does no I/O but the log's.
package failing

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

// A Report is what one loop says. Only the loop's goroutine uses it.
type Report struct {
	log   *slog.Logger
	what  string // such as "election"
	attrs []any

	kind  string
	last  error // nil while nothing fails
	since time.Time
	tries int
}

// New returns the Report of a loop that is known as what, which begins each of its lines.
func New(log *slog.Logger, what string, attrs ...any) *Report {
	return &Report{log: log, what: what, attrs: attrs}
}

// Failed records a failure of the loop. It logs a warning if the failure before it was of another kind,
// or if nothing has failed before.
func (r *Report) Failed(kind string, err error) {
	if r.last == nil {
		r.since, r.tries = time.Now(), 0
	}
	said := r.last != nil && r.kind == kind
	r.kind, r.last = kind, err
	if r.tries++; !said {
		r.log.Warn(r.what+" fails and is tried again", append(r.attrs[:len(r.attrs):len(r.attrs)], "failure", kind, "error", err)...)
	}
}

// Works records that the loop succeeded. It logs a warning if it has failed before.
func (r *Report) Works() {
	if r.last == nil {
		return
	}
	r.last = nil
	r.log.Warn(r.what+" works again", append(r.attrs[:len(r.attrs):len(r.attrs)], "failure", r.kind, "tries", r.tries, "after", time.Since(r.since).Round(time.Millisecond))...)
}

// With returns err, with which the loop ends, and adds the failure that it has not got over, as text:
// that is not why the loop ends, so errors.Is does not find it.
func (r *Report) With(err error) error {
	if r.last == nil || err == nil {
		return err
	}
	return fmt.Errorf("%w (the last of %d failed tries: %v)", err, r.tries, r.last)
}

// endWait is how late a context may learn that its deadline has passed.
const endWait = 50 * time.Millisecond

// Ended returns why ctx has ended, or nil if it has not. A call may find that ctx's deadline has passed
// before ctx does. What the deadline has cut off is no failure of the loop.
func Ended(ctx context.Context) error {
	if end, ok := ctx.Deadline(); ok && ctx.Err() == nil && !time.Now().Before(end) {
		select {
		case <-ctx.Done():
		case <-time.After(endWait):
			return context.DeadlineExceeded
		}
	}
	return context.Cause(ctx)
}
