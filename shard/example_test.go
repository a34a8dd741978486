package shard_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/testkit/stage"
	"github.com/pawl-locks/pawl/shard"
	"github.com/pawl-locks/pawl/test/pawltest"
)

// Four shards, two workers, and a third one that comes.
func ExampleRun() {
	t := stage.Begin() // in a test, its own *testing.T
	defer t.End()
	etcd := pawltest.New(t) // an etcd in memory, for the example
	ctx, stop := context.WithCancel(context.Background())
	var all sync.WaitGroup
	owned := make(chan int)
	for range 2 {
		client := etcd.Client(t, pawl.Config{})
		all.Go(func() { // ends with ctx
			_ = shard.Run(ctx, client, "orders", 4, shard.Options{}, func(ctx context.Context, h *shard.Held) error {
				owned <- h.Shard() // the work, with h.Token()
				<-ctx.Done()       // until another waits for the shard, or it is lost
				return nil         // what has to be saved is saved by now
			})
		})
	}
	var shards []int
	for range 4 {
		shards = append(shards, <-owned)
	}
	slices.Sort(shards)
	fmt.Println("worked on:", shards)
	stop()
	go func() { // ends with the workers
		for range owned {
		}
	}()
	all.Wait()
	close(owned)
	// Output:
	// worked on: [0 1 2 3]
}

// A test of one's own worker: in a bubble no time passes in fact, and a client can be cut off.
func TestAWorkerOfOnesOwnUnderPawltest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		etcd := pawltest.New(t)
		ctx, stop := context.WithCancel(t.Context())
		var mu sync.Mutex
		works := map[int]int{} // the worker that works on each shard
		var all sync.WaitGroup
		var clients []*pawl.Client
		for worker := range 3 {
			client := etcd.Client(t, pawl.Config{})
			clients = append(clients, client)
			all.Go(func() { // ends with ctx
				_ = shard.Run(ctx, client, "orders", 6, shard.Options{}, func(ctx context.Context, h *shard.Held) error {
					mu.Lock()
					works[h.Shard()] = worker
					mu.Unlock()
					<-ctx.Done()
					return nil
				})
			})
		}
		loads := func() (loads [3]int) {
			mu.Lock()
			defer mu.Unlock()
			for _, worker := range works {
				loads[worker]++
			}
			return loads
		}
		time.Sleep(3 * time.Second)
		if got := loads(); got != [3]int{2, 2, 2} {
			t.Errorf("loads are %v", got)
		}
		etcd.CutClient(clients[1]) // for longer than its TTL
		time.Sleep(20 * time.Second)
		if got := loads(); got != [3]int{3, 0, 3} {
			t.Errorf("loads are %v", got)
		}
		etcd.HealClient(clients[1])
		time.Sleep(10 * time.Second)
		if got := loads(); got != [3]int{2, 2, 2} {
			t.Errorf("loads are %v", got)
		}
		stop()
		all.Wait()
	})
}
