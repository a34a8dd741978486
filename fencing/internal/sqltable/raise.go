package sqltable

import (
	"context"
	"database/sql"
	"errors"

	"github.com/pawl-locks/pawl/fencing"
)

// A raising is a pair of statements. write raises the registers of a resource to a token,
// unless the register that decides is too high; read reads that register. Both lock the row,
// whether or not it is changed. If returning is set, write returns what read would, unless it
// refused.
type raising struct {
	write     string
	args      int // how many arguments write has beside the resource; each is the token
	read      string
	returning bool
}

// raise runs r, and returns the register that decides.
func (t Table) raise(ctx context.Context, c Conn, r raising, resource string, token fencing.Token) (seen fencing.Token, err error) {
	name := t.Dialect.resource(resource)
	args := []any{name}
	for range r.args {
		args = append(args, int64(token))
	}
	if r.returning {
		if err = c.QueryRow(ctx, r.write, args, &seen); !errors.Is(err, sql.ErrNoRows) {
			return seen, err
		}
	} else if err = c.Exec(ctx, r.write, args...); err != nil {
		return 0, err
	}
	err = c.QueryRow(ctx, r.read, []any{name}, &seen)
	return seen, err
}

// exclusive raises both registers to a token that is not below the highest.
func (t Table) exclusive() raising {
	switch t.Dialect {
	case Postgres:
		// The row is locked even if WHERE refuses it. An equal token writes the row again,
		// which saves a second statement.
		return raising{
			write: "INSERT INTO " + t.name + " AS f (resource, highest, exclusive) VALUES ($1, $2, $2) ON CONFLICT (resource)" +
				" DO UPDATE SET highest = EXCLUDED.highest, exclusive = EXCLUDED.exclusive WHERE f.highest <= EXCLUDED.highest RETURNING highest",
			args: 1, read: t.read("highest", " FOR UPDATE"), returning: true,
		}
	case MySQL:
		// Neither statement opens the transaction's snapshot, so the caller's next read shows
		// the current state. The assignments are made from left to right.
		return raising{
			write: "INSERT INTO " + t.name + " (resource, highest, exclusive) VALUES (?, ?, ?)" +
				" ON DUPLICATE KEY UPDATE exclusive = IF(highest <= ?, ?, exclusive), highest = GREATEST(highest, ?)",
			args: 5, read: t.read("highest", " FOR UPDATE"),
		}
	}
	// Even where WHERE refuses, the statement has taken the file's write lock.
	return raising{
		write: "INSERT INTO " + t.name + " (resource, highest, exclusive) VALUES (?, ?, ?) ON CONFLICT (resource)" +
			" DO UPDATE SET highest = excluded.highest, exclusive = excluded.exclusive WHERE highest <= excluded.highest AND exclusive < excluded.exclusive",
		args: 2, read: t.read("highest", ""),
	}
}

// shared raises the highest register to a token that is above the exclusive one.
func (t Table) shared() raising {
	switch t.Dialect {
	case Postgres:
		return raising{
			write: "INSERT INTO " + t.name + " AS f (resource, highest, exclusive) VALUES ($1, $2, 0) ON CONFLICT (resource)" +
				" DO UPDATE SET highest = GREATEST(f.highest, EXCLUDED.highest) WHERE f.exclusive < EXCLUDED.highest RETURNING exclusive",
			args: 1, read: t.read("exclusive", " FOR UPDATE"), returning: true,
		}
	case MySQL:
		return raising{
			write: "INSERT INTO " + t.name + " (resource, highest, exclusive) VALUES (?, ?, 0)" +
				" ON DUPLICATE KEY UPDATE highest = IF(exclusive < ?, GREATEST(highest, ?), highest)",
			args: 3, read: t.read("exclusive", " FOR UPDATE"),
		}
	}
	return raising{
		write: "INSERT INTO " + t.name + " (resource, highest, exclusive) VALUES (?, ?, 0) ON CONFLICT (resource)" +
			" DO UPDATE SET highest = excluded.highest WHERE exclusive < excluded.highest AND highest < excluded.highest",
		args: 1, read: t.read("exclusive", ""),
	}
}

func (t Table) read(column, lock string) string {
	return "SELECT " + column + " FROM " + t.name + " WHERE resource = " + t.Dialect.Placeholder(1) + lock
}

// ForShare locks the rows of a SELECT against writers but not against readers. SQLite has one
// writer at a time, and its readers see one state throughout.
func (d Dialect) ForShare() string {
	switch d {
	case Postgres:
		return " FOR SHARE"
	case MySQL:
		return " LOCK IN SHARE MODE"
	}
	return ""
}
