package sqlfence_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"

	_ "modernc.org/sqlite"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/fencing/sqlfence"
)

// open opens a file that several processes share.
func open() (db *sql.DB, remove func(), err error) {
	dir, err := os.MkdirTemp("", "sqlfence")
	if err != nil {
		return nil, nil, err
	}
	remove = func() { _ = os.RemoveAll(dir) }
	db, err = sql.Open("sqlite", "file:"+filepath.Join(dir, "app.db")+
		"?_txlock=immediate&_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
	return db, remove, err
}

// withdraw is the work under the lock: admitted first, then read, then written, in one transaction.
func withdraw(ctx context.Context, db *sql.DB, fence sqlfence.Fence, t fencing.Token, amount int) error {
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
	if _, err := tx.ExecContext(ctx, "UPDATE accounts SET balance = ? WHERE id = 7", balance-amount); err != nil {
		return err
	}
	return tx.Commit()
}

func ExampleFence() {
	ctx := context.Background()
	db, remove, err := open()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer remove()
	defer db.Close()
	fence := sqlfence.Fence{Dialect: sqlfence.SQLite}
	if err := fence.Create(ctx, db); err != nil { // at each start; it can be run again
		fmt.Println(err)
		return
	}
	if _, err := db.ExecContext(ctx, "CREATE TABLE accounts (id INTEGER PRIMARY KEY, balance INTEGER NOT NULL); INSERT INTO accounts VALUES (7, 100)"); err != nil {
		fmt.Println(err)
		return
	}

	// The tokens are Held.Token() of package lock.
	fmt.Println(withdraw(ctx, db, fence, 41, 10))
	fmt.Println(withdraw(ctx, db, fence, 57, 30))
	fmt.Println(withdraw(ctx, db, fence, 41, 50)) // a paused holder, late
	var balance int
	err = db.QueryRowContext(ctx, "SELECT balance FROM accounts WHERE id = 7").Scan(&balance)
	fmt.Println(balance, err)
	// Output:
	// <nil>
	// <nil>
	// fencing: stale token 41 for "account/7": 57 was seen
	// 60 <nil>
}

// Where the token is a column of the caller's own table, one statement does it, without a transaction.
func ExampleRow() {
	ctx := context.Background()
	db, remove, err := open()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer remove()
	defer db.Close()
	if _, err := db.ExecContext(ctx, `CREATE TABLE jobs (id TEXT PRIMARY KEY, state TEXT NOT NULL, fence BIGINT NOT NULL DEFAULT 0);
		INSERT INTO jobs (id, state) VALUES ('42', 'new')`); err != nil {
		fmt.Println(err)
		return
	}
	jobs := sqlfence.Row{Dialect: sqlfence.SQLite, Table: "jobs", Key: "id", Token: "fence"}
	fmt.Println(jobs.Admit(ctx, db, "42", 57)) // before the first read
	fmt.Println(jobs.Update(ctx, db, "42", 57, "state = ?", "done"))
	fmt.Println(jobs.Update(ctx, db, "42", 41, "state = ?", "failed"))
	// Output:
	// <nil>
	// <nil>
	// fencing: stale token 41 for "42": 57 was seen
}
