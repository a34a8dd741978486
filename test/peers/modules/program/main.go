//go:build ignore

package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/elect"
	"github.com/pawl-locks/pawl/kv"
	"github.com/pawl-locks/pawl/lock"
	"github.com/pawl-locks/pawl/shard"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err := everything(ctx, os.Args[1])
	if err == nil {
		err = beside(ctx, os.Args[1])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func dial(ctx context.Context, endpoint string) (*pawl.Client, error) {
	return pawl.Dial(ctx, pawl.Config{Endpoints: []string{endpoint}})
}

// everything uses a lock, a guard, an election and a shard.
func everything(ctx context.Context, endpoint string) error {
	c, err := dial(ctx, endpoint)
	if err != nil {
		return err
	}
	defer c.Close()
	err = lock.New(c, "job", lock.Options{}).Do(ctx, func(ctx context.Context, h *lock.Held) error {
		_, err := c.KV().Txn(ctx, kv.Txn{Guards: []kv.Guard{h.Guard()}, Then: []kv.Op{kv.Put("result", []byte("done"))}})
		return err
	})
	if err != nil {
		return fmt.Errorf("a lock: %w", err)
	}
	term, err := elect.New(c, "leader", elect.Options{}).Campaign(ctx, []byte("me"))
	if err != nil {
		return fmt.Errorf("an election: %w", err)
	}
	if err := term.Resign(ctx); err != nil {
		return fmt.Errorf("an election: %w", err)
	}
	one, stop := context.WithCancel(ctx)
	defer stop()
	owned := false
	err = shard.Run(one, c, "shards", 1, shard.Options{}, func(ctx context.Context, h *shard.Held) error {
		owned = true
		stop()
		<-ctx.Done()
		return nil
	})
	if !owned {
		return fmt.Errorf("no shard: %w", err)
	}
	return nil
}
