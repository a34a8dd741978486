//go:build linux

package main

import (
	"context"
	"time"

	"go.etcd.io/etcd/client/v3/concurrency"
	recipe "go.etcd.io/etcd/client/v3/experimental/recipes"

	"github.com/pawl-locks/pawl/elect"
	"github.com/pawl-locks/pawl/lock"
)

// These are pawl's modes.

func (s pawlSession) readWrite(name string) readWriter {
	return pawlReadWriter{lock.New(s.s, name, lock.Options{})}
}

func (s pawlSession) permits(name string, limit int) taker {
	m := lock.NewSemaphore(s.s, name, limit, lock.Options{})
	return takerFunc(func(ctx context.Context) (held, error) {
		p, err := m.Acquire(ctx)
		if err != nil {
			return nil, err
		}
		return pawlHeld{p}, nil
	})
}

func (s pawlSession) set(names []string) taker {
	wants := make([]lock.Want, len(names))
	for i, name := range names {
		wants[i] = lock.Exclusive(name)
	}
	m := lock.NewMulti(s.s, lock.Options{}, wants...)
	return takerFunc(func(ctx context.Context) (held, error) {
		h, err := m.Acquire(ctx)
		if err != nil {
			return nil, err
		}
		return pawlHeld{h}, nil
	})
}

func (s pawlSession) candidate(name string) taker {
	e := elect.New(s.s, name, elect.Options{})
	return takerFunc(func(ctx context.Context) (held, error) {
		t, err := e.Campaign(ctx, nil)
		if err != nil {
			return nil, err
		}
		return resignFunc(t.Resign), nil
	})
}

type pawlReadWriter struct{ m *lock.Mutex }

func (l pawlReadWriter) write(ctx context.Context) (held, error) { return pawlLocker(l).acquire(ctx) }

func (l pawlReadWriter) read(ctx context.Context) (held, error) {
	h, err := l.m.AcquireShared(ctx)
	if err != nil {
		return nil, err
	}
	return pawlHeld{h}, nil
}

// plainKit is pawl with exclusive locks only.
type plainKit struct{ pawlKit }

func (k plainKit) dial(ctx context.Context, addrs ...string) (client, error) {
	c, err := k.pawlKit.dial(ctx, addrs...)
	return plainClient{c}, err
}

type plainClient struct{ client }

func (c plainClient) session(ctx context.Context, ttl time.Duration) (session, error) {
	s, err := c.client.session(ctx, ttl)
	if err != nil {
		return nil, err
	}
	return plainSession{s.(pawlSession)}, nil
}

type plainSession struct{ pawlSession }

func (s plainSession) permits(name string, limit int) taker { return anyOf(s, name, limit) }
func (s plainSession) set(names []string) taker             { return inOrder(s, names) }

// These are the modes of etcd's client: RWMutex of its experimental recipes, and plain locks.

func (s peerSession) readWrite(name string) readWriter {
	return peerReadWriter{recipe.NewRWMutex(s.s, name)}
}
func (s peerSession) permits(name string, limit int) taker { return anyOf(s, name, limit) }
func (s peerSession) set(names []string) taker             { return inOrder(s, names) }

func (s peerSession) candidate(name string) taker {
	return takerFunc(func(ctx context.Context) (held, error) {
		e := concurrency.NewElection(s.s, name)
		return resignFunc(e.Resign), e.Campaign(ctx, "")
	})
}

type resignFunc func(ctx context.Context) error

func (f resignFunc) release(ctx context.Context) error { return f(ctx) }

// peerReadWriter is the recipe, which takes no context.
type peerReadWriter struct{ m *recipe.RWMutex }

func (l peerReadWriter) read(context.Context) (held, error) {
	return releaseFunc(l.m.RUnlock), l.m.RLock()
}

func (l peerReadWriter) write(context.Context) (held, error) {
	return releaseFunc(l.m.Unlock), l.m.Lock()
}

type releaseFunc func() error

func (f releaseFunc) release(context.Context) error { return f() }
