package sqlfence

import (
	"context"
	"database/sql"

	"github.com/pawl-locks/pawl/fencing/internal/sqltable"
)

// A conn is a sqltable.Conn.
type conn struct{ Querier }

func (c conn) Exec(ctx context.Context, query string, args ...any) error {
	_, err := c.ExecContext(ctx, query, args...)
	return err
}

func (c conn) QueryRow(ctx context.Context, query string, args []any, dest ...any) error {
	return c.QueryRowContext(ctx, query, args...).Scan(dest...)
}

// transaction is tx as a sqltable.Conn; nil if tx is nil.
func transaction(tx *sql.Tx) sqltable.Conn {
	if tx == nil {
		return nil
	}
	return conn{tx}
}

// database is db as a sqltable.DB; nil if db is nil.
func database(db *sql.DB) sqltable.DB {
	if db == nil {
		return nil
	}
	return pool{conn{db}, db}
}

// A pool is a sqltable.DB.
type pool struct {
	conn
	db *sql.DB
}

func (p pool) InTx(ctx context.Context, f func(c sqltable.Conn) error) error {
	tx, err := p.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing once committed
	if err := f(conn{tx}); err != nil {
		return err
	}
	return tx.Commit()
}
