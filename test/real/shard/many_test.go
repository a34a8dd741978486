//go:build unix

package shard_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
	"github.com/pawl-locks/pawl/lock"
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

// work runs a worker until stop is called, which waits for its end.
func (f *fleet) work() (stop func()) {
	f.Helper()
	c, err := pawl.Dial(f.Context(), f.cfg)
	require.NoError(f, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { // ends after stop
		defer close(done)
		_ = shard.Run(ctx, c, "many", f.n, shard.Options{Notify: func(ev shard.Event) {
			switch ev.Kind {
			case shard.Lost:
				f.lost.Add(1)
			case shard.Moving:
				f.moves.Add(1)
			}
		}}, func(ctx context.Context, _ *shard.Held) error {
			f.count(1)
			<-ctx.Done()
			f.count(-1)
			return nil
		})
	}()
	return func() {
		cancel()
		<-done
		_ = c.Close()
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
	late := time.After(testscale.Hang)
	for f.held.Load() < int64(f.n) {
		select {
		case <-f.news:
		case <-late:
			require.Fail(f, what, "%d of %d shards are held", f.held.Load(), f.n)
		}
	}
	f.Logf("%s: all %d held after %v, %d lost", what, f.n, time.Since(f.began).Round(100*time.Millisecond), f.lost.Load())
	assert.Zero(f, f.lost.Load())
}

// moved waits until so many shards have been given to another worker since the last call.
func (f *fleet) moved(n int64) {
	f.Helper()
	late := time.After(testscale.Hang)
	for f.moves.Load() < n {
		select {
		case <-f.news:
		case <-late:
			require.Fail(f, "too few shards move", "%d of %d", f.moves.Load(), n)
		}
	}
}

// beside is another client that holds one lock, and locks further names, until it is stopped.
func (f *fleet) beside(cfg pawl.Config) (stop func()) {
	f.Helper()
	c, err := pawl.Dial(f.Context(), cfg)
	require.NoError(f, err)
	kept, err := lock.New(c, "kept", lock.Options{}).Acquire(f.Context())
	require.NoError(f, err)
	ctx, cancel := context.WithCancel(f.Context())
	var took []time.Duration
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			began := time.Now()
			h, err := lock.New(c, fmt.Sprint("other", i), lock.Options{}).Acquire(f.Context())
			took = append(took, time.Since(began))
			if assert.NoError(f, err) {
				assert.NoError(f, h.Release(f.Context()))
			}
			time.Sleep(20 * time.Millisecond)
		}
	})
	return func() {
		cancel()
		wg.Wait()
		slices.Sort(took)
		f.Logf("another client: %d locks, p50 %v, p99 %v, at most %v", len(took), took[len(took)/2], took[len(took)*99/100], took[len(took)-1])
		assert.NoError(f, kept.Err())
		assert.NoError(f, c.Close())
	}
}

// One worker starts with thousands of shards, a second one joins and leaves. Nothing is lost, and another
// client keeps its lock, and gets others.
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
			stop := f.beside(other)
			f.began = time.Now()
			first := f.work()
			f.all("one worker")
			stop()
			f.began = time.Now()
			second := f.work()
			f.moved(int64(c.n / 2))
			f.all("a second one joined")
			f.began = time.Now()
			second()
			f.all("it has left")
			first()
		})
	}
}
