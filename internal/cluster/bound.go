package cluster

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// bound ends an attempt: when its time is over, or with the context of the call. Most end nothing,
// and serve another attempt: to make its parts for each is a tenth of what an attempt allocates.
type bound struct {
	ctx    context.Context // ended by cancel alone
	cancel context.CancelFunc
	timer  *time.Timer
	late   atomic.Bool // the time is over

	// What it hangs on: a Scope, or another context, or nothing.
	scope  *Scope
	next   *bound // in scope
	unhook func() bool
}

// bind returns a bound that ends after d, and with ctx. It must be given back to unbind.
func (c *Cluster) bind(ctx context.Context, d time.Duration) *bound {
	b, _ := c.bounds.Get().(*bound)
	if b == nil {
		b = &bound{}
		b.ctx, b.cancel = context.WithCancel(context.Background())
		b.timer = time.AfterFunc(d, b.expire)
	} else {
		b.timer.Reset(d)
	}
	if s, ok := ctx.(*Scope); ok {
		b.scope = s
		s.attach(b)
	} else if ctx.Done() != nil {
		b.unhook = context.AfterFunc(ctx, b.cancel)
	}
	return b
}

func (b *bound) expire() {
	b.late.Store(true)
	b.cancel()
}

// unbind ends b, or keeps it for another attempt, if it is certain that nothing will end it any more.
func (c *Cluster) unbind(b *bound) {
	reusable := b.timer.Stop()
	if b.scope != nil {
		reusable = b.scope.detach(b) && reusable
	}
	if b.unhook != nil {
		reusable = b.unhook() && reusable
	}
	b.scope, b.unhook = nil, nil
	if reusable {
		c.bounds.Put(b)
		return
	}
	b.cancel()
}

// why is err, of an attempt under ctx, with the code of what b was ended by: for gRPC it was cancelled.
func (b *bound) why(ctx context.Context, err error) error {
	s := statusOf(err)
	if s == nil && errors.Is(err, context.Canceled) { // an interceptor said so
		s = status.New(codes.Canceled, err.Error())
	}
	if s == nil || s.Code() != codes.Canceled || b.ctx.Err() == nil {
		return err
	}
	if ended := ctx.Err(); ended == context.Canceled || ended == nil && !b.late.Load() {
		return err
	}
	return status.Error(codes.DeadlineExceeded, strings.Replace(s.Message(), context.Canceled.Error(), context.DeadlineExceeded.Error(), 1))
}
