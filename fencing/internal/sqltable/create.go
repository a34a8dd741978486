package sqltable

import (
	"context"
	"database/sql"
	"errors"
	"strings"
)

// A DB is a Conn that runs each statement in a separate transaction.
type DB interface {
	Conn
	// InTx runs f in a transaction, and commits it if f returns nil.
	InTx(ctx context.Context, f func(c Conn) error) error
}

// Create creates the table unless it exists, and migrates one from before shared tokens. It can
// be run again, and by several processes at once.
func (t Table) Create(ctx context.Context, db DB) error {
	// In PostgreSQL two processes that create the table at once can fail despite IF NOT EXISTS.
	// So what counts is whether the table exists.
	err := db.Exec(ctx, t.schema())
	probe := t.has(ctx, db, "highest, exclusive")
	if probe != nil {
		if t.has(ctx, db, "token") == nil {
			err = t.migrate(ctx, db)
		}
		probe = t.has(ctx, db, "highest, exclusive") // another may have migrated it since the first probe
	}
	if probe != nil {
		return errors.Join(err, probe)
	}
	if t.Dialect == MySQL {
		return t.finish(ctx, db)
	}
	return nil
}

// has returns nil if the table exists and has the columns.
func (t Table) has(ctx context.Context, db DB, columns string) error {
	dest := make([]any, 1+len(strings.Split(columns, ",")))
	for i := range dest {
		dest[i] = new(any)
	}
	err := db.QueryRow(ctx, "SELECT resource, "+columns+" FROM "+t.name+" WHERE 1 = 0", nil, dest...)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	return err
}

func (t Table) schema() string {
	create := "CREATE TABLE IF NOT EXISTS " + t.name
	switch t.Dialect {
	case Postgres:
		return create + " (resource bytea PRIMARY KEY, highest bigint NOT NULL CHECK (highest > 0), exclusive bigint NOT NULL CHECK (exclusive >= 0))"
	case MySQL:
		return create + " (resource VARBINARY(1024) NOT NULL PRIMARY KEY, highest BIGINT NOT NULL, exclusive BIGINT NOT NULL) ENGINE=InnoDB"
	}
	return create + " (resource TEXT NOT NULL PRIMARY KEY, highest INTEGER NOT NULL CHECK (highest > 0), exclusive INTEGER NOT NULL CHECK (exclusive >= 0)) WITHOUT ROWID"
}

// migrate turns a table's one column into two registers. The first statement takes that column away, so
// code that knows only that column fails, and of two that migrate at once one fails. All tokens were
// exclusive.
func (t Table) migrate(ctx context.Context, db DB) error {
	if t.Dialect == MySQL {
		// This is not one transaction. Until finish has run, the exclusive register refuses
		// every shared token.
		return db.Exec(ctx, "ALTER TABLE "+t.name+" CHANGE token highest BIGINT NOT NULL, ADD COLUMN exclusive BIGINT NOT NULL DEFAULT 9223372036854775807")
	}
	return db.InTx(ctx, func(c Conn) error {
		for _, statement := range []string{
			"ALTER TABLE " + t.name + " RENAME COLUMN token TO highest",
			"ALTER TABLE " + t.name + " ADD COLUMN exclusive BIGINT NOT NULL DEFAULT 0",
			"UPDATE " + t.name + " SET exclusive = highest",
		} {
			if err := c.Exec(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	})
}

// finish completes a migration in MySQL, even one whose process died.
func (t Table) finish(ctx context.Context, db DB) error {
	var one int
	err := db.QueryRow(ctx, "SELECT 1 FROM "+t.name+" WHERE exclusive > highest LIMIT 1", nil, &one)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err == nil {
		err = db.Exec(ctx, "UPDATE "+t.name+" SET exclusive = highest WHERE exclusive > highest")
	}
	return err
}
