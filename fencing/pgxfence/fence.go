package pgxfence

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/fencing/internal/sqltable"
)

// DefaultTable is the table of a Fence that names none.
const DefaultTable = sqltable.DefaultTable

// Errors of a Fence.
var (
	// ErrNoTable is matched by the error of a call whose table is missing. Fence.Create makes the table.
	ErrNoTable = sqltable.ErrNoTable
	// ErrNotRegistered is matched by the error of AdmitShared for a token that was not registered.
	ErrNotRegistered = sqltable.ErrNotRegistered
	// ErrBadName is matched by errors that refuse the name of a table.
	ErrBadName = sqltable.ErrBadName
)

// A Fence is a table with the two registers of each resource: the highest token, and the highest exclusive one. It is a plain value; copies are the same fence. Its
// methods are safe for concurrent use as far as their arguments are.
type Fence struct {
	Table string // "": pawl_fence; "schema.table" is allowed. It is quoted, so PostgreSQL takes it as it is spelled.
}

// A Beginner is a *pgxpool.Pool or a *pgx.Conn.
type Beginner interface {
	Begin(ctx context.Context) (pgx.Tx, error)
}

// Create creates the table unless it is there. It can be run again, and by several processes at once. It fails if a table is there that has other columns. It migrates the
// table of a pawl without shared tokens, as sqlfence.Fence.Create does.
func (f Fence) Create(ctx context.Context, db Beginner) error {
	table, err := sqltable.New(sqltable.Postgres, f.Table)
	switch {
	case err != nil:
	case ctx == nil:
		err = errNilContext
	case db == nil:
		err = errNilDB
	default:
		err = table.Create(ctx, pool{db})
	}
	if err != nil {
		return fmt.Errorf("pgxfence: create: %w", err)
	}
	return nil
}

// Admit returns nil if no greater token was committed for resource: then t, an exclusive token, is its highest if tx is committed, and nobody else is admitted for
// resource until tx ends. It blocks while another transaction that was admitted for resource is open, until ctx ends or the database's own limit. A refusal is a
// *fencing.StaleError, unwrapped. After any error roll tx back.
//
// Call it before the first read of tx.
func (f Fence) Admit(ctx context.Context, tx pgx.Tx, resource string, t fencing.Token) error {
	return f.in(ctx, "admit", tx, resource, t, sqltable.Table.Admit)
}

// Register registers t, the token of a shared lock, in a short transaction of its own. A reader calls it once, before its first read; from then on Admit refuses every smaller
// token. It returns nil if no exclusive token as great as t was committed, and a *fencing.StaleError if one was. It blocks while a transaction that was
// admitted for resource is open, a reader's too.
func (f Fence) Register(ctx context.Context, db Beginner, resource string, t fencing.Token) error {
	switch {
	case ctx == nil:
		return wrap("register", resource, errNilContext)
	case db == nil:
		return wrap("register", resource, errNilDB)
	}
	tx, err := db.Begin(ctx)
	if err != nil {
		return wrap("register", resource, err)
	}
	if err := f.in(ctx, "register", tx, resource, t, sqltable.Table.Register); err != nil {
		rollback(ctx, tx)
		return err
	}
	return wrap("register", resource, tx.Commit(ctx))
}

// AdmitShared returns nil if t, the token of a shared lock, was registered, and no exclusive token as great was committed for resource. No writer is admitted for
// resource until tx ends; other readers are. It blocks while a writer's transaction is open. A refusal is a *fencing.StaleError, unwrapped; the error for a token that was not
// registered matches ErrNotRegistered. It writes nothing. After any error roll tx back.
//
// Call it before the first read of tx.
func (f Fence) AdmitShared(ctx context.Context, tx pgx.Tx, resource string, t fencing.Token) error {
	return f.in(ctx, "admit shared", tx, resource, t, sqltable.Table.AdmitShared)
}

type operation func(t sqltable.Table, ctx context.Context, c sqltable.Conn, resource string, token fencing.Token) error

// in checks what a method was given, and does the operation in tx.
func (f Fence) in(ctx context.Context, what string, tx pgx.Tx, resource string, t fencing.Token, do operation) error {
	table, err := sqltable.New(sqltable.Postgres, f.Table)
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

var (
	errNilContext = errors.New("nil context")
	errNilDB      = errors.New("nil database")
	errNilTx      = errors.New("nil transaction")
)

// wrap leaves a refusal as it is.
func wrap(what, resource string, err error) error {
	var stale *fencing.StaleError
	if err == nil || errors.As(err, &stale) {
		return err
	}
	return fmt.Errorf("pgxfence: %s %.64q: %w", what, resource, err)
}
