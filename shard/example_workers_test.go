package shard_test

import (
	"context"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/shard"
	"github.com/pawl-locks/pawl/test/pawltest"
)

// orders is a worker of one's own: it counts the orders of each shard, and saves the count when
// the shard moves.
type orders struct {
	mu     sync.Mutex
	counts map[int]int    // as saved
	by     map[int]string // who works on each shard
}

func (o *orders) run(ctx context.Context, client *pawl.Client, name string) error {
	return shard.Run(ctx, client, "orders", 6, shard.Options{}, func(ctx context.Context, h *shard.Held) error {
		o.mu.Lock()
		count := o.counts[h.Shard()]
		o.by[h.Shard()] = name
		o.mu.Unlock()
		for order := time.NewTicker(time.Second); ; {
			select {
			case <-order.C:
				count++
			case <-ctx.Done():
				if h.Err() == nil {
					o.mu.Lock()
					o.counts[h.Shard()] = count
					o.mu.Unlock()
				}
				return nil
			}
		}
	})
}

// loads is how many shards each worker has.
func (o *orders) loads() map[string]int {
	o.mu.Lock()
	defer o.mu.Unlock()
	loads := map[string]int{}
	for _, name := range o.by {
		loads[name]++
	}
	return loads
}

// A test of that worker. In a bubble no time passes in fact. Workers are added, cut off, and leave.
func TestOrdersAreWorkedOnByThoseWhoAreThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		etcd := pawltest.New(t)
		o := &orders{counts: map[int]int{}, by: map[int]string{}}
		clients, stops := map[string]*pawl.Client{}, map[string]context.CancelFunc{}
		var all sync.WaitGroup
		add := func(name string) {
			client := etcd.Client(t, pawl.Config{})
			ctx, stop := context.WithCancel(t.Context())
			clients[name], stops[name] = client, stop
			all.Go(func() { _ = o.run(ctx, client, name) }) // ends with ctx
		}
		after := func(d time.Duration, want map[string]int) {
			t.Helper()
			time.Sleep(d)
			if got := o.loads(); !maps.Equal(got, want) {
				t.Errorf("loads are %v, want %v", got, want)
			}
		}
		add("ann")
		add("ben")
		after(3*time.Second, map[string]int{"ann": 3, "ben": 3})
		add("cleo")
		after(3*time.Second, map[string]int{"ann": 2, "ben": 2, "cleo": 2})
		etcd.CutClient(clients["ben"]) // for longer than its TTL
		after(20*time.Second, map[string]int{"ann": 3, "cleo": 3})
		etcd.HealClient(clients["ben"])
		after(10*time.Second, map[string]int{"ann": 2, "ben": 2, "cleo": 2})
		stops["ann"]()
		after(5*time.Second, map[string]int{"ben": 3, "cleo": 3})
		stops["ben"]()
		stops["cleo"]()
		all.Wait()
		for i := range 6 {
			if o.counts[i] < 20 {
				t.Errorf("%d orders of shard %d", o.counts[i], i)
			}
		}
	})
}
