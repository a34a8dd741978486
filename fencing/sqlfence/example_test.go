package sqlfence_test

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/fencing/sqlfence"
)

// The work under the lock: admitted first, then read, then written, in one transaction. The
// database is opened with any driver, such as github.com/jackc/pgx/v5/stdlib.
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

// A reader under a shared lock: registered once, then admitted in each transaction that reads.
func ExampleFence_Register() {
	ctx := context.Background()
	db, err := sql.Open("pgx", "postgres://app@db.example/app")
	if err != nil {
		fmt.Println(err)
		return
	}
	fence := sqlfence.Fence{Dialect: sqlfence.Postgres}
	report := func(t fencing.Token) (total int, err error) {
		if err := fence.Register(ctx, db, "accounts", t); err != nil { // before the first read
			return 0, err
		}
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return 0, err
		}
		defer func() { _ = tx.Rollback() }()
		if err := fence.AdmitShared(ctx, tx, "accounts", t); err != nil {
			return 0, err
		}
		err = tx.QueryRowContext(ctx, "SELECT sum(balance) FROM accounts").Scan(&total)
		return total, err
	}
	fmt.Println(report(57))
}
