// Command rates handles the messages of 16 shards, together with all other processes that run it. Some
// shards have many more messages than others. Each process gets its share of the messages.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/shard"
)

const shards = 16

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil && !errors.Is(err, context.Canceled) {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	client, err := pawl.Dial(ctx, pawl.Config{Endpoints: strings.Split(os.Getenv("ETCD"), ",")})
	if err != nil {
		return err
	}
	defer client.Close()
	var r rates
	go r.measure(ctx)
	opts := shard.Options{
		Value:   fmt.Appendf(nil, "pid %d", os.Getpid()),
		Load:    r.perSecond,
		Session: lease.Options{TTL: 3 * time.Second}, // for a try that is over soon; 15 s is the default
	}
	return shard.Run(ctx, client, "events", shards, opts, func(ctx context.Context, h *shard.Held) error {
		next := time.NewTicker(time.Second * time.Duration(h.Shard()+1) / 60) // shard 0 has 60 a second, shard 15 has 4
		defer next.Stop()
		for {
			select {
			case <-next.C:
				r.handled(h.Shard())
			case <-ctx.Done():
				return nil
			}
		}
	})
}

// rates are how many messages a second this process handles, of each shard.
type rates struct {
	mu    sync.Mutex
	count [shards]float64 // in this second
	mean  [shards]float64 // of the last seconds
}

func (r *rates) handled(shard int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count[shard]++
}

// perSecond is the load of a shard.
func (r *rates) perSecond(shard int) float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mean[shard]
}

// measure averages the counts over about five seconds, until ctx ends.
func (r *rates) measure(ctx context.Context) {
	for second := time.NewTicker(time.Second); ctx.Err() == nil; {
		<-second.C
		r.mu.Lock()
		for i := range r.count {
			r.mean[i] += (r.count[i] - r.mean[i]) / 5
			r.count[i] = 0
		}
		r.mu.Unlock()
	}
}
