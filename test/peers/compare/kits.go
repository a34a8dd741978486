//go:build linux

package main

import (
	"context"
	"os/exec"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	recipe "go.etcd.io/etcd/client/v3/experimental/recipes"
	"go.uber.org/zap"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/elect"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
)

// kit is one of the two.
type kit interface {
	name() string
	client(b *bench, endpoints []string) client
	// command is the kit's command, which runs child while it holds the lock.
	command(b *bench, endpoints []string, name string, child ...string) *exec.Cmd
}

// client is a client with a separate connection.
type client interface {
	session(ttl time.Duration) session
}

// session is a lease and the locks on it.
type session interface {
	id() int64
	// over reports, as well as the kit can, whether the session has ended.
	over() bool
	lock(ctx context.Context, name string) (held, error)
	// write acquires a read-write lock as a writer.
	write(ctx context.Context, name string) (held, error)
	// campaign returns when the kit reports that it leads.
	campaign(ctx context.Context, name string) (resign func(context.Context) error, err error)
}

// held is a lock.
type held interface {
	key() string
	// lost reports, as well as the kit can, whether it is no longer held.
	lost() bool
	token() int64 // 0 if the kit has none
	release(ctx context.Context) error
}

type ours struct{}

func (ours) name() string { return "pawl" }

func (ours) client(b *bench, endpoints []string) client {
	c, err := pawl.Dial(b.within(20*time.Second), pawl.Config{Endpoints: endpoints})
	b.must(err)
	b.t.Cleanup(func() { _ = c.Close() })
	return ourClient{b, c}
}

func (ours) command(b *bench, endpoints []string, name string, child ...string) *exec.Cmd {
	return exec.Command(b.built("", "./cmd/pawl"), append([]string{"lock", "--endpoints", strings.Join(endpoints, ","), "--ttl", "5s", name, "--"}, child...)...)
}

type ourClient struct {
	b *bench
	c *pawl.Client
}

func (c ourClient) session(ttl time.Duration) session {
	s, err := c.c.NewSession(c.b.within(20*time.Second), lease.Options{TTL: ttl})
	c.b.must(err)
	return ourSession{s}
}

type ourSession struct{ s *pawl.Session }

func (s ourSession) id() int64  { return s.s.ID() }
func (s ourSession) over() bool { return s.s.Err() != nil }

func (s ourSession) lock(ctx context.Context, name string) (held, error) {
	h, err := lock.New(s.s, name, lock.Options{}).Acquire(ctx)
	if err != nil {
		return nil, err
	}
	return ourHeld{h}, nil
}

func (s ourSession) write(ctx context.Context, name string) (held, error) { return s.lock(ctx, name) } // every lock has readers

func (s ourSession) campaign(ctx context.Context, name string) (func(context.Context) error, error) {
	t, err := elect.New(s.s, name, elect.Options{}).Campaign(ctx, nil)
	if err != nil {
		return nil, err
	}
	return t.Resign, nil
}

type ourHeld struct{ h *lock.Held }

func (h ourHeld) key() string                       { return h.h.Key() }
func (h ourHeld) lost() bool                        { return h.h.Err() != nil }
func (h ourHeld) token() int64                      { return int64(h.h.Token()) }
func (h ourHeld) release(ctx context.Context) error { return h.h.Release(ctx) }

type theirs struct{}

func (theirs) name() string { return "clientv3" }

func (theirs) client(b *bench, endpoints []string) client {
	var plain []string
	for _, e := range endpoints {
		plain = append(plain, strings.TrimPrefix(e, "http://"))
	}
	c, err := clientv3.New(clientv3.Config{Endpoints: plain, Logger: zap.NewNop(), DialTimeout: 5 * time.Second,
		DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: 3 * time.Second})
	b.must(err)
	b.t.Cleanup(func() { _ = c.Close() })
	return theirClient{b, c}
}

func (theirs) command(b *bench, endpoints []string, name string, child ...string) *exec.Cmd {
	etcdctl := b.built("test/peers/interop/etcdctl", "go.etcd.io/etcd/etcdctl/v3", "GOWORK=off") // its module is not in the workspace
	return exec.Command(etcdctl, append([]string{"--endpoints", strings.Join(endpoints, ","), "lock", "--ttl", "5", name, "--"}, child...)...)
}

type theirClient struct {
	b *bench
	c *clientv3.Client
}

func (c theirClient) session(ttl time.Duration) session {
	s, err := concurrency.NewSession(c.c, concurrency.WithTTL(int(ttl/time.Second)))
	c.b.must(err)
	c.b.t.Cleanup(s.Orphan) // closing would wait for a lease that may be gone
	return theirSession{s}
}

type theirSession struct{ s *concurrency.Session }

func (s theirSession) id() int64 { return int64(s.s.Lease()) }

func (s theirSession) over() bool {
	select {
	case <-s.s.Done():
		return true
	default:
		return false
	}
}

func (s theirSession) lock(ctx context.Context, name string) (held, error) {
	m := concurrency.NewMutex(s.s, name)
	if err := m.Lock(ctx); err != nil {
		return nil, err
	}
	return theirHeld{m, s}, nil
}

// write is RWMutex of the experimental recipes, which takes no context.
func (s theirSession) write(_ context.Context, name string) (held, error) {
	m := recipe.NewRWMutex(s.s, name)
	if err := m.Lock(); err != nil {
		return nil, err
	}
	return theirWrite{m, s}, nil
}

func (s theirSession) campaign(ctx context.Context, name string) (func(context.Context) error, error) {
	e := concurrency.NewElection(s.s, name)
	if err := e.Campaign(ctx, ""); err != nil {
		return nil, err
	}
	return e.Resign, nil
}

type theirWrite struct {
	m *recipe.RWMutex
	s theirSession
}

func (theirWrite) key() string                     { return "" } // it does not return its key
func (h theirWrite) lost() bool                    { return h.s.over() }
func (theirWrite) token() int64                    { return 0 }
func (h theirWrite) release(context.Context) error { return h.m.Unlock() }

type theirHeld struct {
	m *concurrency.Mutex
	s theirSession
}

func (h theirHeld) key() string                       { return h.m.Key() }
func (h theirHeld) lost() bool                        { return h.s.over() } // a Mutex does not report a loss
func (h theirHeld) token() int64                      { return 0 }
func (h theirHeld) release(ctx context.Context) error { return h.m.Unlock(ctx) }
