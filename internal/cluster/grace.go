package cluster

import (
	"context"
	"time"
)

// Grace is how long a call may go on after its context's end, to send what it still has to send:
// less than the 100 ms that a caller is promised.
const Grace = 80 * time.Millisecond

// WithGrace returns a context with the values of ctx that ends Grace after ctx does, or when cancel is called,
// which must be. EndOf gives for it what it gives for ctx.
func WithGrace(ctx context.Context) (graced context.Context, cancel context.CancelFunc) {
	return WithGraceOf(ctx, Grace)
}

// WithGraceOf is WithGrace with a grace of d.
func WithGraceOf(ctx context.Context, d time.Duration) (graced context.Context, cancel context.CancelFunc) {
	graced, end := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		time.AfterFunc(d, func() { end(graceOver{EndOf(ctx)}) })
	})
	return graced, func() {
		stop()
		end(context.Canceled)
	}
}

// graceOver is the cause of a graced context's end: why the caller's ended.
type graceOver struct{ error }

func (g graceOver) Unwrap() error { return g.error }
