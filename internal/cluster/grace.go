package cluster

import (
	"context"
	"time"
)

// Grace is how long a call may continue after its context's end, to send what it still has to send. It
// is less than the 100 ms within which every call returns.
const Grace = 80 * time.Millisecond

// WithGrace returns a context with the values of ctx that ends d after ctx does, or when cancel is
// called. The caller must call cancel. EndOf returns the same for it as for ctx.
func WithGrace(ctx context.Context, d time.Duration) (graced context.Context, cancel context.CancelFunc) {
	graced, end := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		time.AfterFunc(d, func() { end(graceEnded{EndOf(ctx)}) })
	})
	return graced, func() {
		stop()
		end(context.Canceled)
	}
}

// graceEnded is the cause of a graced context's end, and wraps the end of the caller's context.
type graceEnded struct{ error }

func (g graceEnded) Unwrap() error { return g.error }
