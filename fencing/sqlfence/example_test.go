package sqlfence_test

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/fencing/sqlfence"
)

// The work under the lock: admitted first, then read, then written, in one transaction. The database is opened with any driver, such as github.com/jackc/pgx/v5/stdlib.
func ExampleFence() {
	ctx := context.Background()
	db, err := sql.Open("pgx", "postgres://app@db.example/app")
	if err != nil {
		fmt.Println(err)
		return
	}
	fence := sqlfence.Fence{Dialect: sqlfence.Postgres}
	if err := fence.Create(ctx, db); err != nil { // at each start; it can be run again
		fmt.Println(err)
		return
	}
	withdraw := func(t fencing.Token, amount int) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }() // does nothing once committed
		if err := fence.Admit(ctx, tx, "account/7", t); err != nil {
			return err
		}
		var balance int
		if err := tx.QueryRowContext(ctx, "SELECT balance FROM accounts WHERE id = 7").Scan(&balance); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "UPDATE accounts SET balance = $1 WHERE id = 7", balance-amount); err != nil {
			return err
		}
		return tx.Commit()
	}
	fmt.Println(withdraw(57, 30))
	fmt.Println(withdraw(41, 50)) // fencing: stale token 41 for "account/7": 57 was seen
}
