//go:build unix

package shard_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/testkit/bystander"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
	"github.com/pawl-locks/pawl/shard"
	"github.com/pawl-locks/pawl/test/etcdtest"
)

// fleet are workers of n shards in this process, with a client each.
type fleet struct {
	*testing.T
	cfg   pawl.Config
	n     int
	held  atomic.Int64
	lost  atomic.Int64
	moves atomic.Int64
	news  chan struct{}
	began time.Time
}

// A cable is a client's connections, which can be cut for good.
type cable struct {
	mu    sync.Mutex
	conns []net.Conn
	isCut bool
}

func (c *cable) dial(ctx context.Context, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isCut {
		_ = conn.Close()
		return nil, errors.New("the cable is cut")
	}
	c.conns = append(c.conns, conn)
	return conn, nil
}

func (c *cable) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isCut = true
	for _, conn := range c.conns {
		_ = conn.Close()
	}
}

// member is a worker of a fleet.
type member struct {
	cable
	stop func() // waits for its end
	held atomic.Int64
	dead atomic.Bool
}

// work runs a worker until it is stopped.
func (f *fleet) work() *member {
	f.Helper()
	f.moves.Store(0)
	x := &member{}
	cfg := f.cfg
	cfg.DialOptions = []grpc.DialOption{grpc.WithContextDialer(x.dial)}
	c, err := pawl.Dial(f.Context(), cfg)
	require.NoError(f, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { // ends after stop
		defer close(done)
		_ = shard.Run(ctx, c, "many", f.n, shard.Options{Notify: func(ev shard.Event) {
			switch {
			case ev.Kind == shard.Lost && !x.dead.Load():
				f.lost.Add(1)
			case ev.Kind == shard.Moving:
				f.moves.Add(1)
			}
		}}, func(ctx context.Context, _ *shard.Held) error {
			x.held.Add(1)
			f.count(1)
			<-ctx.Done()
			x.held.Add(-1)
			f.count(-1)
			return nil
		})
	}()
	x.stop = func() {
		cancel()
		<-done
		_ = c.Close()
	}
	return x
}

// die cuts x off, and waits until it works on nothing any more.
func (f *fleet) die(x *member) {
	f.Helper()
	x.dead.Store(true)
	x.cut()
	f.await("who is cut off goes on", func() bool { return x.held.Load() == 0 })
}

// await waits until it is so.
func (f *fleet) await(what string, so func() bool) {
	f.Helper()
	for late := time.After(testscale.Hang); !so(); {
		select {
		case <-f.news:
		case <-late:
			require.Fail(f, what, "%d of %d shards are held, %d have moved", f.held.Load(), f.n, f.moves.Load())
		}
	}
}

func (f *fleet) count(d int64) {
	f.held.Add(d)
	select {
	case f.news <- struct{}{}:
	default:
	}
}

// all waits until every shard is worked on.
func (f *fleet) all(what string) {
	f.Helper()
	f.await(what, func() bool { return f.held.Load() >= int64(f.n) })
	f.Logf("%s: all %d held after %v, %d lost", what, f.n, time.Since(f.began).Round(100*time.Millisecond), f.lost.Load())
	assert.Zero(f, f.lost.Load())
}

// moved waits until so many shards have been given to another worker since the last one joined.
func (f *fleet) moved(n int64) {
	f.Helper()
	f.await("too few shards move", func() bool { return f.moves.Load() >= n })
}

// One worker starts with thousands of shards, a second one joins and leaves, and a third one joins and dies.
// Who lives loses nothing, and another client keeps its lock, and gets others.
// rule: G12, SH11
func TestThousandsOfShardsOfOneWorker(t *testing.T) {
	for _, c := range []struct {
		n        int
		password bool
	}{{testscale.Of(1_200, 10_000), true}, {testscale.Of(1_200, 100_000), false}} {
		t.Run(fmt.Sprintf("%d shards, password %v", c.n, c.password), func(t *testing.T) {
			s := etcdtest.Start(t)
			mine, other := pawl.Config{Endpoints: s.Endpoints()}, pawl.Config{Endpoints: s.Endpoints()}
			if c.password {
				s.AddUser(t, "app", "pw", etcdtest.Access{Read: true, Write: true})
				s.EnableAuth(t, "root")
				mine.Username, mine.Password = "app", "pw"
				other.Username, other.Password = "root", "root"
			}
			f := &fleet{T: t, cfg: mine, n: c.n, news: make(chan struct{}, 1)}
			stop := bystander.Start(t, other)
			f.began = time.Now()
			first := f.work()
			f.all("one worker")
			f.began = time.Now()
			second := f.work()
			f.moved(int64(c.n / 2))
			f.all("a second one joined")
			f.began = time.Now()
			second.stop()
			f.all("it has left")
			if testscale.Proof() { // it takes a TTL
				third := f.work()
				f.moved(int64(c.n / 2))
				f.all("a third one joined")
				f.began = time.Now()
				f.die(third)
				f.all("it has died")
				third.stop()
			}
			stop()
			first.stop()
		})
	}
}
