package shard_test

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/testkit/exampletb"
	"github.com/pawl-locks/pawl/shard"
	"github.com/pawl-locks/pawl/test/pawltest"
)

// Four shards and two workers.
func ExampleRun() {
	t := exampletb.Begin() // in a test, its own *testing.T
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
