// Command consumer reads the 64 partitions of a stream, together with all other processes that run
// it. Each partition is read by one of them.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	_ "modernc.org/sqlite"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/fencing/sqlfence"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/shard"
)

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
	db, err := sql.Open("sqlite", "file:"+os.Getenv("DB")+
		"?_txlock=immediate&_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
	if err != nil {
		return err
	}
	defer db.Close()
	c := &consumer{db: db, fence: sqlfence.Fence{Dialect: sqlfence.SQLite}}
	if err := c.create(ctx); err != nil {
		return err
	}
	opts := shard.Options{
		Value:   fmt.Appendf(nil, "pid %d", os.Getpid()), // for pawl shards, and for routers
		Session: lease.Options{TTL: 5 * time.Second},     // a process that dies keeps its partitions for so long
	}
	return shard.Run(ctx, client, "orders", 64, opts, func(ctx context.Context, h *shard.Held) error {
		err := c.consume(ctx, h)
		if err != nil {
			log.Printf("partition %d: %v", h.Shard(), err)
		}
		return err
	})
}

type consumer struct {
	db    *sql.DB
	fence sqlfence.Fence
}

func (c *consumer) create(ctx context.Context) error {
	if err := c.fence.Create(ctx, c.db); err != nil {
		return err
	}
	_, err := c.db.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS partitions (
		number INTEGER PRIMARY KEY, next INTEGER NOT NULL, handled INTEGER NOT NULL)`)
	return err
}

// consume handles the messages of one partition, beginning where its last reader stopped. When ctx
// ends because another process waits for the partition, it is still held. What has been handled is
// saved, and the other begins there.
func (c *consumer) consume(ctx context.Context, h *shard.Held) error {
	saved, err := c.load(ctx, h)
	if err != nil {
		return err
	}
	for next := saved; ; {
		select {
		case <-ctx.Done():
			if h.Err() != nil { // the partition is lost, and another may read it already
				return context.Cause(ctx)
			}
			return c.save(ctx, h, saved, next)
		case <-time.After(10 * time.Millisecond): // the next message of the stream
			next++
		}
		if next-saved == 50 {
			if err := c.save(ctx, h, saved, next); err != nil {
				return err
			}
			saved = next
		}
	}
}

// load returns the offset of the next message of the partition.
func (c *consumer) load(ctx context.Context, h *shard.Held) (next int, err error) {
	err = c.admitted(ctx, h, func(tx *sql.Tx) error {
		err := tx.QueryRowContext(ctx, "SELECT next FROM partitions WHERE number = ?", h.Shard()).Scan(&next)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		return err
	})
	return next, err
}

// save records the offset of the next message, with what handling those before it has changed. It
// continues when ctx ends, because the next reader handles again what it does not save.
func (c *consumer) save(ctx context.Context, h *shard.Held, saved, next int) error {
	ctx = context.WithoutCancel(ctx)
	return c.admitted(ctx, h, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO partitions VALUES (?, ?, ?)
			ON CONFLICT (number) DO UPDATE SET next = excluded.next, handled = handled + excluded.handled`,
			h.Shard(), next, next-saved)
		return err
	})
}

// admitted calls do in a transaction. A process that no longer holds the partition, and does not
// know it yet, is refused by its token.
func (c *consumer) admitted(ctx context.Context, h *shard.Held, do func(tx *sql.Tx) error) error {
	tx, err := c.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing once committed
	if err := c.fence.Admit(ctx, tx, h.Name(), h.Token()); err != nil {
		return err
	}
	if err := do(tx); err != nil {
		return err
	}
	return tx.Commit()
}
