//go:build linux

package main

import (
	"context"
	"crypto/tls"
	"errors"
	"time"

	"google.golang.org/grpc"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/hooks"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
)

type pawlKit struct {
	alone   bool // no write shares a request
	options []grpc.DialOption
	tls     *tls.Config
}

func (k pawlKit) dial(ctx context.Context, addrs ...string) (client, error) {
	c, err := pawl.Dial(ctx, pawl.Config{Endpoints: addrs, TLS: k.tls, DialOptions: k.options})
	return pawlClient{c, k.alone}, err
}

type pawlClient struct {
	c     *pawl.Client
	alone bool
}

func (c pawlClient) session(ctx context.Context, ttl time.Duration) (session, error) {
	s, err := c.c.NewSession(ctx, lease.Options{TTL: ttl})
	if err == nil && c.alone {
		pawlSession{s}.batch(0)
	}
	return pawlSession{s}, err
}

type pawlSession struct{ s *pawl.Session }

// batch lets up to n later writes share a request, or none if n is 0.
func (s pawlSession) batch(n int) { hooks.SessionOf(s.s).Host().Batch.Hold(0, n, nil) }

func (s pawlSession) locker(name string) locker {
	return pawlLocker{lock.New(s.s, name, lock.Options{})}
}

type pawlLocker struct{ m *lock.Mutex }

func (l pawlLocker) acquire(ctx context.Context) (held, error) {
	h, err := l.m.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	return pawlHeld{h}, nil
}

func (l pawlLocker) try(ctx context.Context) (held, error) {
	h, err := l.m.TryAcquire(ctx)
	if errors.Is(err, lock.ErrBusy) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return pawlHeld{h}, nil
}

type pawlHeld struct{ h *lock.Held }

func (h pawlHeld) release(ctx context.Context) error { return h.h.Release(ctx) }
