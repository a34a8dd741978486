package sqlfence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/fencing/internal/sqltable"
)

// DefaultTable is the table of a Fence that names none.
const DefaultTable = sqltable.DefaultTable

// A Fence is a table with the two registers of each resource: the highest token, and the highest exclusive one. It is a plain value; copies are the same fence. Its
// methods are safe for concurrent use as far as their db and tx are.
type Fence struct {
	Dialect Dialect
	Table   string // "": pawl_fence; "schema.table" is allowed. It is quoted, so PostgreSQL takes it as it is spelled.
}

// Create creates the table unless it is there. It can be run again, and by several processes at once. It fails if a table is there that has other columns. In MySQL it
// commits a transaction only of its own connection.
//
// It migrates the table of a pawl without shared tokens, which has one column, token: that becomes the column highest, and each row's exclusive the same. Processes of that
// older version fail from then on, and admit nothing. Migration needs the right to alter the table.
func (f Fence) Create(ctx context.Context, db *sql.DB) error {
	table, err := sqltable.New(f.Dialect.table(), f.Table)
	switch {
	case err != nil:
	case ctx == nil:
		err = errNilContext
	case db == nil:
		err = errNilDB
	default:
		err = table.Create(ctx, pool{conn{db}, db})
	}
	if err != nil {
		return fmt.Errorf("sqlfence: create: %w", err)
	}
	return nil
}

// Admit returns nil if no greater token was committed for resource: then t, an exclusive token, is its highest if tx is committed, and nobody else is admitted for resource until
// tx ends. It blocks while another transaction that was admitted for resource is open, until ctx ends or the database's own limit. A refusal is a
// *fencing.StaleError, unwrapped. After any error roll tx back.
//
// Call it before the first read of tx (package comment).
func (f Fence) Admit(ctx context.Context, tx *sql.Tx, resource string, t fencing.Token) error {
	return f.in(ctx, "admit", tx, resource, t, sqltable.Table.Admit)
}

// Register registers t, the token of a shared lock, in a short transaction of its own. A reader calls it once, before its first read; from then on Admit refuses every smaller
// token. It returns nil if no exclusive token as great as t was committed, and a *fencing.StaleError if one was. It blocks while a transaction that was
// admitted for resource is open, a reader's too.
func (f Fence) Register(ctx context.Context, db *sql.DB, resource string, t fencing.Token) error {
	switch {
	case ctx == nil:
		return wrap("register", resource, errNilContext)
	case db == nil:
		return wrap("register", resource, errNilDB)
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return wrap("register", resource, err)
	}
	defer func() { _ = tx.Rollback() }() // does nothing once committed
	if err := f.in(ctx, "register", tx, resource, t, sqltable.Table.Register); err != nil {
		return err
	}
	return wrap("register", resource, tx.Commit())
}

// AdmitShared returns nil if t, the token of a shared lock, was registered, and no exclusive token as great was committed for resource. No writer is admitted for
// resource until tx ends; other readers are. It blocks while a writer's transaction is open. A refusal is a *fencing.StaleError, unwrapped; the error for a token that was not
// registered matches ErrNotRegistered. It writes nothing. After any error roll tx back.
//
// Call it before the first read of tx (package comment).
func (f Fence) AdmitShared(ctx context.Context, tx *sql.Tx, resource string, t fencing.Token) error {
	return f.in(ctx, "admit shared", tx, resource, t, sqltable.Table.AdmitShared)
}

type operation func(t sqltable.Table, ctx context.Context, c sqltable.Conn, resource string, token fencing.Token) error

// in checks what a method was given, and does the operation in tx.
func (f Fence) in(ctx context.Context, what string, tx *sql.Tx, resource string, t fencing.Token, do operation) error {
	table, err := sqltable.New(f.Dialect.table(), f.Table)
	switch {
	case err != nil:
	case ctx == nil:
		err = errNilContext
	case tx == nil:
		err = errNilTx
	default:
		err = fencing.Check(resource, t)
	}
	if err == nil {
		err = do(table, ctx, conn{tx}, resource, t)
	}
	return wrap(what, resource, err)
}

// wrap leaves a refusal as it is.
func wrap(what, resource string, err error) error {
	var stale *fencing.StaleError
	if err == nil || errors.As(err, &stale) {
		return err
	}
	return fmt.Errorf("sqlfence: %s %.64q: %w", what, resource, err)
}
