package pgxfence

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/fencing/internal/sqltable"
)

// DefaultTable is the table of a Fence without a table name.
const DefaultTable = sqltable.DefaultTable

// The errors of a Fence.
var (
	// ErrNoTable is matched by the error of a call whose table is missing. Fence.Create makes the table.
	ErrNoTable = sqltable.ErrNoTable
	// ErrNotRegistered is matched by the error of AdmitShared for a token that was not registered.
	ErrNotRegistered = sqltable.ErrNotRegistered
	// ErrBadName is matched by errors that refuse the name of a table.
	ErrBadName = sqltable.ErrBadName
)

// A Fence is a table with the two registers of each resource: the highest token, and the highest
// exclusive one. It is a plain value; copies are the same fence. Its methods are safe for
// concurrent use as far as their arguments are.
type Fence struct {
	Table string // pawl_fence if ""; may be "schema.table"; quoted, so PostgreSQL uses it exactly as spelled
}

// A Beginner is a *pgxpool.Pool or a *pgx.Conn.
type Beginner interface {
	Begin(ctx context.Context) (pgx.Tx, error)
}

// Create creates the table unless it exists. It can be run again, and by several processes at
// once. It fails if a table with other columns exists. It migrates the table of a pawl without
// shared tokens, as sqlfence.Fence.Create does.
func (f Fence) Create(ctx context.Context, db Beginner) error {
	return f.table().Create(ctx, database(db))
}

// Admit returns nil if no greater token was committed for resource. If tx is then committed, t, an
// exclusive token, is its highest. Nobody else is admitted for resource until tx ends. It blocks while
// another transaction that was admitted for resource is open, until ctx ends or the database's limit is
// reached. A refusal is a *fencing.StaleError, unwrapped. After any error roll tx back.
//
// Call it before the first read of tx.
func (f Fence) Admit(ctx context.Context, tx pgx.Tx, resource string, t fencing.Token) error {
	return f.table().Admit(ctx, transaction(tx), resource, t)
}

// Register registers t, the token of a shared lock, in a short separate transaction. A reader calls it
// once, before its first read. It returns nil if no exclusive token as great as t was committed, and
// Admit then refuses every smaller token. It returns a *fencing.StaleError if one was committed. It
// blocks while a transaction that was admitted for resource is open, a reader's too.
func (f Fence) Register(ctx context.Context, db Beginner, resource string, t fencing.Token) error {
	return f.table().Register(ctx, database(db), resource, t)
}

// AdmitShared returns nil if t, the token of a shared lock, was registered, and no exclusive token
// as great was committed for resource. No writer is admitted for resource until tx ends; other
// readers are. It blocks while a writer's transaction is open. A refusal is a *fencing.StaleError,
// unwrapped; the error for a token that was not registered matches ErrNotRegistered. It writes
// nothing. After any error roll tx back.
//
// Call it before the first read of tx.
func (f Fence) AdmitShared(ctx context.Context, tx pgx.Tx, resource string, t fencing.Token) error {
	return f.table().AdmitShared(ctx, transaction(tx), resource, t)
}

func (f Fence) table() sqltable.Fence {
	return sqltable.Fence{Package: "pgxfence", Dialect: sqltable.Postgres, Table: f.Table}
}
