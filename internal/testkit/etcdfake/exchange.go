package etcdfake

import (
	"context"
	"errors"
	"path"
	"time"

	"google.golang.org/grpc"

	"github.com/pawl-locks/pawl/internal/etcdapi"
)

// errSilence means that the client is to get no answer at all.
var errSilence = errors.New("no answer")

// unary intercepts every unary method of a member.
func (m *Member) unary(ctx context.Context, msg any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	p, _ := msg.(etcdapi.Message)
	req := Request{Member: m, Method: path.Base(info.FullMethod), Message: p}
	m.counts.add(&m.counts.received, req.Method)
	resp, err := m.exchange(ctx, req, func(ctx context.Context) (etcdapi.Message, error) {
		if err := m.admit(ctx, msg); err != nil {
			return nil, err
		}
		resp, err := handle(ctx, msg)
		if err != nil {
			return nil, err
		}
		return resp.(etcdapi.Message), nil
	})
	if errors.Is(err, errSilence) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if err == nil {
		m.counts.add(&m.counts.sent, req.Method)
	}
	return resp, err
}

// exchange applies a request and returns its answer, as the rules say.
func (m *Member) exchange(ctx context.Context, req Request, apply func(context.Context) (etcdapi.Message, error)) (etcdapi.Message, error) {
	r := m.c.match(ctx, &req)
	if r == nil {
		return apply(ctx)
	}
	resp, err := r.deliver(ctx, m.c, req, apply)
	if err != nil {
		return nil, err
	}
	if r.Edit != nil && resp != nil {
		resp = etcdapi.Clone(resp)
		r.Edit(req, resp)
	}
	if err := m.c.sleep(ctx, r.HoldAnswer); err != nil {
		return nil, err
	}
	switch {
	case r.Hang:
		return nil, errSilence
	case r.Err != nil:
		return nil, r.Err
	}
	return resp, nil
}

// deliver lets the request take effect when and as often as the rule says. It does so even if the
// client has given up, as a network does.
func (r *Rule) deliver(ctx context.Context, c *Cluster, req Request, apply func(context.Context) (etcdapi.Message, error)) (etcdapi.Message, error) {
	if r.Forge != nil {
		return r.Forge(req)
	}
	if r.Lose {
		if r.Err == nil {
			return nil, errSilence
		}
		return nil, c.sleepThen(ctx, r.HoldAnswer, r.Err)
	}
	detached := context.WithoutCancel(ctx)
	if r.Late > 0 {
		c.later(r.Late, func() { _, _ = apply(detached) })
		if r.Err == nil {
			return nil, errSilence
		}
		return nil, c.sleepThen(ctx, r.HoldAnswer, r.Err)
	}
	if r.Delay > 0 {
		if err := c.sleep(detached, r.Delay); err != nil {
			return nil, err
		}
		ctx = detached
	}
	resp, err := apply(ctx)
	if r.Again > 0 {
		c.later(r.Again, func() { _, _ = apply(detached) })
	}
	if err != nil && r.Err == nil && !r.Hang {
		return nil, err
	}
	return resp, nil
}

func (c *Cluster) sleepThen(ctx context.Context, d time.Duration, err error) error {
	if e := c.sleep(ctx, d); e != nil {
		return e
	}
	return err
}
