package sqlfence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/pawl-locks/pawl/fencing"
)

// DefaultTable is the table of a Fence that names none.
const DefaultTable = "pawl_fence"

// A Fence is a table with the highest token of each resource. It is a plain value; copies are the same fence. Its methods are safe for concurrent use as
// far as their db and tx are.
type Fence struct {
	Dialect Dialect
	Table   string // "": pawl_fence; "schema.table" is allowed. It is quoted, so PostgreSQL takes it as it is spelled.
}

// quoted checks the fence and returns its table as it is written in statements.
func (f Fence) quoted() (string, error) {
	if err := f.Dialect.check(); err != nil {
		return "", err
	}
	table := f.Table
	if table == "" {
		table = DefaultTable
	}
	return f.Dialect.quote(table, tableName)
}

// Create creates the table unless it is there. It can be run again, and by several processes at once. It does not change a table that is
// there, and fails if that has other columns. In MySQL it commits a transaction only of its own connection.
func (f Fence) Create(ctx context.Context, db *sql.DB) error {
	table, err := f.quoted()
	switch {
	case err != nil:
	case ctx == nil:
		err = errNilContext
	case db == nil:
		err = errNilDB
	default:
		err = f.create(ctx, db, table)
	}
	if err != nil {
		return fmt.Errorf("sqlfence: create: %w", err)
	}
	return nil
}

func (f Fence) create(ctx context.Context, db *sql.DB, table string) error {
	_, err := db.ExecContext(ctx, f.schema(table))
	// In PostgreSQL two that create at once can fail for one another although it says IF NOT EXISTS. What counts is what is there.
	rows, probe := db.QueryContext(ctx, "SELECT resource, token FROM "+table+" WHERE 1 = 0")
	if probe != nil {
		return errors.Join(err, probe)
	}
	return rows.Close()
}

func (f Fence) schema(table string) string {
	create := "CREATE TABLE IF NOT EXISTS " + table
	switch f.Dialect {
	case Postgres:
		return create + " (resource bytea PRIMARY KEY, token bigint NOT NULL CHECK (token > 0))"
	case MySQL:
		return create + " (resource VARBINARY(1024) NOT NULL PRIMARY KEY, token BIGINT NOT NULL) ENGINE=InnoDB"
	}
	return create + " (resource TEXT NOT NULL PRIMARY KEY, token INTEGER NOT NULL CHECK (token > 0)) WITHOUT ROWID"
}

// Admit returns nil if no greater token was committed for resource: then t is its highest if tx is committed, and nobody else is admitted for resource until
// tx ends. It blocks while another transaction that was admitted for resource is open, until ctx ends or the database's own limit. A refusal is a
// *fencing.StaleError, unwrapped. After any error roll tx back.
//
// Call it before the first read of tx (package comment).
func (f Fence) Admit(ctx context.Context, tx *sql.Tx, resource string, t fencing.Token) error {
	table, err := f.quoted()
	switch {
	case err != nil:
	case ctx == nil:
		err = errNilContext
	case tx == nil:
		err = errNilTx
	default:
		err = fencing.Check(resource, t)
	}
	if err != nil {
		return fmt.Errorf("sqlfence: admit %.64q: %w", resource, err)
	}
	highest, err := f.raise(ctx, tx, table, resource, t)
	if err != nil {
		return fmt.Errorf("sqlfence: admit %.64q: %w", resource, missing(err, table))
	}
	if highest > t {
		return &fencing.StaleError{Resource: resource, Got: t, Highest: highest}
	}
	return nil
}

// raise makes t the highest token of resource unless a greater one is there, takes the row's lock in either case, and returns the highest.
func (f Fence) raise(ctx context.Context, tx *sql.Tx, table, resource string, t fencing.Token) (highest fencing.Token, err error) {
	name := f.Dialect.name(resource)
	switch f.Dialect {
	case Postgres:
		// The row is locked even where WHERE refuses it. An equal token writes the row again, to save a second question.
		err = tx.QueryRowContext(ctx, "INSERT INTO "+table+" AS f (resource, token) VALUES ($1, $2)"+
			" ON CONFLICT (resource) DO UPDATE SET token = EXCLUDED.token WHERE f.token <= EXCLUDED.token RETURNING token", name, int64(t)).Scan(&highest)
		if !errors.Is(err, sql.ErrNoRows) {
			return highest, err
		}
		err = tx.QueryRowContext(ctx, "SELECT token FROM "+table+" WHERE resource = $1 FOR UPDATE", name).Scan(&highest)
	case MySQL:
		// Neither statement opens the transaction's snapshot, so what the caller reads next is as it is now.
		_, err = tx.ExecContext(ctx, "INSERT INTO "+table+" (resource, token) VALUES (?, ?) ON DUPLICATE KEY UPDATE token = GREATEST(token, ?)", name, int64(t), int64(t))
		if err == nil {
			err = tx.QueryRowContext(ctx, "SELECT token FROM "+table+" WHERE resource = ? FOR UPDATE", name).Scan(&highest)
		}
	case SQLite:
		// Even where WHERE refuses, the statement has taken the file's write lock.
		_, err = tx.ExecContext(ctx, "INSERT INTO "+table+" (resource, token) VALUES (?, ?)"+
			" ON CONFLICT (resource) DO UPDATE SET token = excluded.token WHERE token < excluded.token", name, int64(t))
		if err == nil {
			err = tx.QueryRowContext(ctx, "SELECT token FROM "+table+" WHERE resource = ?", name).Scan(&highest)
		}
	}
	return highest, err
}
