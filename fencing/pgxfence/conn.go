package pgxfence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-locks/pawl/fencing/internal/sqltable"
)

// A conn is a sqltable.Conn in a transaction.
type conn struct{ pgx.Tx }

func (c conn) Exec(ctx context.Context, query string, args ...any) error {
	_, err := c.Tx.Exec(ctx, query, args...)
	return err
}

func (c conn) QueryRow(ctx context.Context, query string, args []any, dest ...any) error {
	err := c.Tx.QueryRow(ctx, query, args...).Scan(dest...)
	if errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("%w: %w", sql.ErrNoRows, err)
	}
	return err
}

// transaction is tx as a sqltable.Conn; nil if tx is nil.
func transaction(tx pgx.Tx) sqltable.Conn {
	if tx == nil {
		return nil
	}
	return conn{tx}
}

// database is db as a sqltable.DB; nil if db is nil.
func database(db Beginner) sqltable.DB {
	if db == nil {
		return nil
	}
	return pool{db}
}

// A pool is a sqltable.DB that runs each statement in a separate transaction.
type pool struct{ Beginner }

func (p pool) Exec(ctx context.Context, query string, args ...any) error {
	return p.InTx(ctx, func(c sqltable.Conn) error { return c.Exec(ctx, query, args...) })
}

func (p pool) QueryRow(ctx context.Context, query string, args []any, dest ...any) error {
	return p.InTx(ctx, func(c sqltable.Conn) error { return c.QueryRow(ctx, query, args, dest...) })
}

func (p pool) InTx(ctx context.Context, f func(c sqltable.Conn) error) error {
	tx, err := p.Begin(ctx)
	if err != nil {
		return err
	}
	if err := f(conn{tx}); err != nil {
		rollback(ctx, tx)
		return err
	}
	return tx.Commit(ctx)
}

// rollbackTime bounds a rollback; pgx closes a connection that is not rolled back.
const rollbackTime = 100 * time.Millisecond

// rollback ends tx even if ctx has ended.
func rollback(ctx context.Context, tx pgx.Tx) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTime)
	defer cancel()
	_ = tx.Rollback(ctx)
}
