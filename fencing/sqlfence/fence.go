package sqlfence

import (
	"context"
	"database/sql"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/fencing/internal/sqltable"
)

// DefaultTable is the table of a Fence without a table name.
const DefaultTable = sqltable.DefaultTable

// A Fence is a table with the two registers of each resource: the highest token, and the highest
// exclusive one. It is a plain value; copies are the same fence. Its methods are safe for
// concurrent use as far as their db and tx are.
type Fence struct {
	Dialect Dialect
	Table   string // pawl_fence if ""; may be "schema.table"; quoted, so PostgreSQL uses it exactly as spelled
}

// Create creates the table unless it exists. It can be run again, and by several processes at once.
// It fails if a table with other columns exists. In MySQL it commits an open transaction of the
// connection that it uses, and of no other.
//
// It migrates the table of a pawl without shared tokens, whose one column, token, becomes the
// column highest; each row's exclusive gets the same value. Processes of that older version then
// fail, and admit nothing. Migration needs the right to alter the table.
func (f Fence) Create(ctx context.Context, db *sql.DB) error {
	return f.table().Create(ctx, database(db))
}

// Admit returns nil if no greater token was committed for resource. If tx is then committed, t, an
// exclusive token, is its highest. Nobody else is admitted for resource until tx ends. It blocks while
// another transaction that was admitted for resource is open, until ctx ends or the database's limit is
// reached. A refusal is a *fencing.StaleError, unwrapped. After any error roll tx back.
//
// Call it before the first read of tx (package comment).
func (f Fence) Admit(ctx context.Context, tx *sql.Tx, resource string, t fencing.Token) error {
	return f.table().Admit(ctx, transaction(tx), resource, t)
}

// Register registers t, the token of a shared lock, in a short separate transaction. A reader calls it
// once, before its first read. It returns nil if no exclusive token as great as t was committed, and
// Admit then refuses every smaller token. It returns a *fencing.StaleError if one was committed. It
// blocks while a transaction that was admitted for resource is open, a reader's too.
func (f Fence) Register(ctx context.Context, db *sql.DB, resource string, t fencing.Token) error {
	return f.table().Register(ctx, database(db), resource, t)
}

// AdmitShared returns nil if t, the token of a shared lock, was registered, and no exclusive token
// as great was committed for resource. No writer is admitted for resource until tx ends; other
// readers are. It blocks while a writer's transaction is open. A refusal is a *fencing.StaleError,
// unwrapped; the error for a token that was not registered matches ErrNotRegistered. It writes
// nothing. After any error roll tx back.
//
// Call it before the first read of tx (package comment).
func (f Fence) AdmitShared(ctx context.Context, tx *sql.Tx, resource string, t fencing.Token) error {
	return f.table().AdmitShared(ctx, transaction(tx), resource, t)
}

func (f Fence) table() sqltable.Fence {
	return sqltable.Fence{Package: "sqlfence", Dialect: f.Dialect.table(), Table: f.Table}
}
