package lock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/testkit/stage"
	"github.com/pawl-locks/pawl/lock"
	"github.com/pawl-locks/pawl/test/pawltest"
)

// A worker works on some of the shards, each under a lock of its own, with as many other
// workers as there are.
type worker struct {
	client *pawl.Client
	shards int
	most   int // how many at once, so that something is left for the others
	work   func(ctx context.Context, shard int, h *lock.Held) error
}

// run takes free shards, in an order of its own, until it has most, and looks for others
// again when one is given back.
func (w *worker) run(ctx context.Context) {
	var working sync.WaitGroup
	defer working.Wait() // what is held is released before run returns
	var busy atomic.Int64
	returned := make(chan struct{}, 1)
	for ctx.Err() == nil {
		for _, shard := range rand.Perm(w.shards) {
			if busy.Load() >= int64(w.most) || ctx.Err() != nil {
				break
			}
			h, err := lock.New(w.client, fmt.Sprintf("shards/%d", shard), lock.Options{}).TryAcquire(ctx)
			if err != nil {
				continue // lock.ErrBusy: another works on it. Or etcd fails: later
			}
			busy.Add(1)
			working.Go(func() { // ends with its work
				_ = h.Do(ctx, func(ctx context.Context) error { return w.work(ctx, shard, h) })
				busy.Add(-1)
				select {
				case returned <- struct{}{}:
				default: // run is to look again already
				}
			})
		}
		select {
		case <-returned:
		case <-time.After(time.Second): // a worker may have died
		case <-ctx.Done():
		}
	}
}

// A hundred shards over four workers, of which one ends.
func ExampleMutex_TryAcquire() {
	t := stage.Begin()
	defer t.End()
	etcd := pawltest.New(t) // an etcd in memory, for the example
	const shards = 100
	var owners [shards]atomic.Int64
	var taken atomic.Int64
	all := make(chan struct{})
	work := func(ctx context.Context, shard int, h *lock.Held) error {
		if owners[shard].Add(1) > 1 {
			fmt.Println("two workers on shard", shard)
		}
		if taken.Add(1) == shards {
			close(all)
		}
		<-ctx.Done() // until the lock is lost, or the worker is to end
		owners[shard].Add(-1)
		return nil
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	for range 4 {
		w := &worker{client: etcd.Client(t, pawl.Config{}), shards: shards, most: 30, work: work}
		go func() { w.run(ctx); ended <- struct{}{} }() // ends with ctx
	}
	<-all
	fmt.Println("each shard has one worker")
	stop()
	for range 4 {
		<-ended
	}
	client := etcd.Client(t, pawl.Config{})
	_, err := lock.New(client, "shards/42", lock.Options{}).TryAcquire(context.Background())
	fmt.Println("and is free afterwards:", err == nil, errors.Is(err, lock.ErrBusy))
	// Output:
	// each shard has one worker
	// and is free afterwards: true false
}
