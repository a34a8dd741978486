//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/testkit/faultproxy"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/shard"
)

// shardChanges are what happens to shards that are shared out.
var shardChanges = []string{"start", "rest", "join", "leave", "death"}

const shortTTL = 5 * time.Second

// shardScenarios are each change, for few shards and for many, and a rolling restart of the few.
func shardScenarios() (list []scenario) {
	for _, size := range []struct{ shards, workers int }{{64, 8}, {1_000, 50}} {
		for _, change := range shardChanges {
			s := scenario{Name: shardsName(change, size.shards), Task: "shards-" + change, Sizes: []int{size.workers}, Shards: size.shards,
				kits: []string{ours}}
			if change == "rest" || size.shards > 64 {
				s.rounds = 1
			}
			switch change {
			case "rest":
				s.TTL, s.Span = shortTTL, 3*shortTTL
			case "death":
				s.TTL = shortTTL
			}
			list = append(list, s)
		}
	}
	return append(list, scenario{Name: shardsName("rolling", 64), Task: "shards-rolling", Sizes: []int{8}, Shards: 64, kits: []string{ours}, rounds: 1})
}

func shardsName(change string, shards int) string { return fmt.Sprintf("shards-%d-%s", shards, change) }

func shardPoints() (all []point) {
	for _, s := range shardScenarios() {
		all = append(all, point{s.Name, s.Sizes[0]})
	}
	return all
}

// A crew is the workers of one name, each of which has a separate client.
type crew struct {
	w       *worker
	workers []*shardWorker // that live

	mu      sync.Mutex
	changed chan struct{}        // closed by the next change
	owner   []*shardWorker       // by shard; nil if it has none
	since   []time.Time          // since when it has none
	gaps    []time.Duration      // for how long shards had none, after their first owner
	loads   map[*shardWorker]int // of those that live
}

// shardWorker is one call of Run.
type shardWorker struct {
	client *pawl.Client
	proxy  *faultproxy.Proxy // before the server
	cancel context.CancelFunc
	done   chan error
}

// sharing makes n workers share out the scenario's shards, and then calls change. It measures what
// that costs until all shards are shared out evenly again. P50 and P99 are the times for which a
// shard had nobody. change returns how many operations it was. If it is nil, the start is measured.
func sharing(ctx context.Context, w *worker, n int, change func(context.Context, *crew) (int, error)) (f figures, err error) {
	c := &crew{w: w, changed: make(chan struct{}), owner: make([]*shardWorker, w.Scenario.Shards), since: make([]time.Time, w.Scenario.Shards),
		loads: map[*shardWorker]int{}}
	defer func() {
		all := c.workers
		err = errors.Join(err, each(len(all), len(all), func(i int) error { return c.leave(all[i]) }))
	}()
	start := func() (int, error) {
		if err := each(n, n, func(int) error { return c.start(ctx) }); err != nil {
			return 0, err
		}
		return 1, c.settled(ctx)
	}
	if change == nil {
		return w.metered(start)
	}
	if _, err := start(); err != nil {
		return f, err
	}
	f, err = w.metered(func() (int, error) {
		ops, err := change(ctx, c)
		if err != nil {
			return 0, err
		}
		return ops, c.settled(ctx)
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.gaps) > 0 {
		f.P50, f.P99 = quantiles(c.gaps)
	}
	return f, err
}

// start adds a worker.
func (c *crew) start(ctx context.Context) (err error) {
	x := &shardWorker{done: make(chan error, 1)}
	if x.proxy, err = faultproxy.New(c.w.Addr); err != nil {
		return err
	}
	if x.client, err = pawl.Dial(ctx, pawl.Config{Endpoints: []string{x.proxy.Addr()}}); err != nil {
		x.proxy.Close()
		return err
	}
	ctx, x.cancel = context.WithCancel(ctx)
	c.mu.Lock()
	c.workers = append(c.workers, x)
	c.loads[x] = 0
	c.mu.Unlock()
	go func() { // ends with Run, which leave and kill wait for
		x.done <- shard.Run(ctx, x.client, c.w.Tag, len(c.owner), shard.Options{Session: lease.Options{TTL: c.w.Scenario.TTL}},
			func(ctx context.Context, h *shard.Held) error {
				c.set(h.Shard(), x)
				<-ctx.Done()
				c.unset(h.Shard(), x)
				return nil
			})
	}()
	return nil
}

// set notes that x works on a shard.
func (c *crew) set(i int, x *shardWorker) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.since[i].IsZero() {
		c.gaps = append(c.gaps, time.Since(c.since[i]))
	}
	c.owner[i] = x
	c.loads[x]++
	c.notify()
}

// unset notes that x has stopped working on a shard, unless x is dead, and that is known.
func (c *crew) unset(i int, x *shardWorker) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.owner[i] == x {
		c.owner[i], c.since[i] = nil, time.Now()
		c.loads[x]--
		c.notify()
	}
}

// notify is called with mu locked.
func (c *crew) notify() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// settled waits until every shard has a worker and loads are within one, and a moment longer for
// what follows from that.
func (c *crew) settled(ctx context.Context) error {
	for {
		c.mu.Lock()
		least, most := len(c.owner), 0
		for _, n := range c.loads {
			least, most = min(least, n), max(most, n)
		}
		even := most-least <= 1 && !slices.Contains(c.owner, nil)
		changed := c.changed
		c.mu.Unlock()
		if even {
			time.Sleep(time.Second)
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("the shards were not shared out: %w", ctx.Err())
		}
	}
}

// remove takes a worker from those that live.
func (c *crew) remove(x *shardWorker) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.workers = slices.DeleteFunc(slices.Clone(c.workers), func(y *shardWorker) bool { return y == x })
	delete(c.loads, x)
}

// leave ends a worker in order.
func (c *crew) leave(x *shardWorker) error {
	x.cancel()
	c.mu.Lock()
	delete(c.loads, x)
	c.mu.Unlock()
	err := <-x.done
	c.remove(x)
	err = errors.Join(x.client.Close(), unlessCanceled(err))
	x.proxy.Close()
	return err
}

func unlessCanceled(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// kill cuts a worker off, as if its machine had died. Its shards then have nobody.
func (c *crew) kill(x *shardWorker) {
	x.proxy.BlackHole()
	c.remove(x)
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, of := range c.owner {
		if of == x {
			c.owner[i], c.since[i] = nil, time.Now()
		}
	}
	go func() { // ends once the worker has lost its session, or its cleaning up is given up
		x.cancel()
		<-x.done
		_ = x.client.Close()
		x.proxy.Close()
	}()
}

func shardsStart(ctx context.Context, w *worker, n int) (figures, error) {
	return sharing(ctx, w, n, nil)
}

// shardsRest is nothing happening. An operation is one worker for one TTL.
func shardsRest(ctx context.Context, w *worker, n int) (figures, error) {
	return sharing(ctx, w, n, func(context.Context, *crew) (int, error) {
		time.Sleep(w.Scenario.Span)
		return n * int(w.Scenario.Span/w.Scenario.TTL), nil
	})
}

func shardsJoin(ctx context.Context, w *worker, n int) (figures, error) {
	return sharing(ctx, w, n, func(ctx context.Context, c *crew) (int, error) { return 1, c.start(ctx) })
}

func shardsLeave(ctx context.Context, w *worker, n int) (figures, error) {
	return sharing(ctx, w, n, func(_ context.Context, c *crew) (int, error) { return 1, c.leave(c.workers[0]) })
}

func shardsDeath(ctx context.Context, w *worker, n int) (figures, error) {
	return sharing(ctx, w, n, func(_ context.Context, c *crew) (int, error) {
		c.kill(c.workers[0])
		return 1, nil
	})
}

// shardsRolling replaces each worker. An operation is one of them.
func shardsRolling(ctx context.Context, w *worker, n int) (figures, error) {
	return sharing(ctx, w, n, func(ctx context.Context, c *crew) (int, error) {
		for range n {
			if err := errors.Join(c.leave(c.workers[0]), c.start(ctx), c.settled(ctx)); err != nil {
				return 0, err
			}
		}
		return n, nil
	})
}
