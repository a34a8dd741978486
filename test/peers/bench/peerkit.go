//go:build linux

package main

import (
	"context"
	"crypto/tls"
	"errors"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
)

// peerKit is etcd's client and its concurrency package, unchanged.
type peerKit struct{ tls *tls.Config }

func (k peerKit) dial(_ context.Context, addrs ...string) (client, error) {
	c, err := clientv3.New(clientv3.Config{Endpoints: addrs, TLS: k.tls, Logger: zap.NewNop()})
	return peerClient{c}, err
}

type peerClient struct{ c *clientv3.Client }

func (c peerClient) session(_ context.Context, ttl time.Duration) (session, error) {
	s, err := concurrency.NewSession(c.c, concurrency.WithTTL(int(ttl/time.Second)))
	return peerSession{s}, err
}

type peerSession struct{ s *concurrency.Session }

func (s peerSession) locker(name string) locker {
	return peerLocker{concurrency.NewMutex(s.s, name)}
}

// peerLocker is the peer's Mutex, which is also what is held.
type peerLocker struct{ m *concurrency.Mutex }

func (l peerLocker) acquire(ctx context.Context) (held, error) { return l, l.m.Lock(ctx) }

func (l peerLocker) try(ctx context.Context) (held, error) {
	err := l.m.TryLock(ctx)
	if errors.Is(err, concurrency.ErrLocked) {
		return nil, nil
	}
	return l, err
}

func (l peerLocker) release(ctx context.Context) error { return l.m.Unlock(ctx) }
