package pgxfence_test

import (
	"context"
	"errors"
	"log"
	"os"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/fencing/pgxfence"
)

// A write under a lock. The token is that of lock.Held or elect.Term.
func Example() {
	ctx, token := context.Background(), fencing.Token(57)
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	var fence pgxfence.Fence
	if err := fence.Create(ctx, pool); err != nil { // at each start
		log.Panic(err)
	}

	tx, err := pool.Begin(ctx)
	if err != nil {
		log.Panic(err)
	}
	defer func() { _ = tx.Rollback(ctx) }() // does nothing once committed
	var stale *fencing.StaleError
	if err := fence.Admit(ctx, tx, "accounts/7", token); errors.As(err, &stale) { // before the first read
		log.Panicf("the lock is lost: token %d was seen", stale.Highest)
	} else if err != nil {
		log.Panic(err)
	}
	if _, err := tx.Exec(ctx, "UPDATE accounts SET balance = balance - 30 WHERE id = 7"); err != nil {
		log.Panic(err)
	}
	if err := tx.Commit(ctx); err != nil {
		log.Panic(err)
	}
}
