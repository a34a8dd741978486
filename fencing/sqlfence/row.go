package sqlfence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/fencing/internal/sqltable"
)

// A Row guards tables that keep the registers in their columns. Each call is one statement, which finds
// the row only while its token is not greater, and sets it. It needs no transaction, and works in one.
// The row must exist: insert it beforehand with token 0, or guard its creation by a Fence.
//
//	accounts := sqlfence.Row{Dialect: sqlfence.Postgres, Table: "accounts", Key: "id", Token: "fence"}   // fence BIGINT NOT NULL DEFAULT 0
//	err := accounts.Admit(ctx, db, 42, held.Token())                                                     // once, before the first read
//	err = accounts.Update(ctx, db, 42, held.Token(), "balance = $1", 100)
//
// Where readers hold the lock together, a second column, Exclusive, makes Register and AdmitShared
// work. Everybody who writes to the table must then name both.
type Row struct {
	Dialect   Dialect
	Table     string // "schema.table" is allowed
	Key       string // column whose value names the row; it must be unique
	Token     string // column for the highest token: BIGINT NOT NULL
	Exclusive string // column for the highest exclusive token, BIGINT NOT NULL; if "", shared tokens are refused
}

// A Querier is a *sql.DB, a *sql.Conn or a *sql.Tx.
type Querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

var errOneRegister = errors.New("shared tokens need the column Row.Exclusive")

// Admit registers t, an exclusive token, for the row whose Key is key, and changes nothing else. A
// new holder calls it before its first read of the row. Errors are those of Update.
func (r Row) Admit(ctx context.Context, q Querier, key any, t fencing.Token) error {
	return r.Update(ctx, q, key, t, "")
}

// Update sets columns of the row whose Key is key, if no greater token was admitted for it. set is
// what stands between SET and WHERE, with its arguments as placeholders of the dialect, numbered
// from 1; it is the caller's text, and not checked. It must not set Key, Token or Exclusive.
//
// It returns a *fencing.StaleError, whose Resource is key's text, and writes nothing if a greater token
// is there. It returns an error matching ErrNoRow if there is no such row. Two that race are ordered by
// the database's lock on the row. If an answer is lost, the same call can be made again with a set that
// does not build on what it replaces, as "n = n + 1" does. In MySQL it sets the connection's
// LAST_INSERT_ID(). If several rows have this key, all are written, and the error says so.
func (r Row) Update(ctx context.Context, q Querier, key any, t fencing.Token, set string, args ...any) error {
	return r.run(ctx, "update", q, key, t, func(c columns, resource string) error {
		return r.update(ctx, q, c.update(set, args, key, t), key, resource, t)
	})
}

// Register registers t, the token of a shared lock, for the row whose Key is key, and changes
// nothing else. A reader calls it with a *sql.DB, before its first read. It returns nil if no
// exclusive token as great as t was admitted; other errors are those of Update.
func (r Row) Register(ctx context.Context, db *sql.DB, key any, t fencing.Token) error {
	return r.run(ctx, "register", db, key, t, func(c columns, resource string) error {
		if r.Exclusive == "" {
			return errOneRegister
		}
		return r.update(ctx, db, c.register(key, t), key, resource, t)
	})
}

// AdmitShared is Fence.AdmitShared for the row whose Key is key. An error matches ErrNoRow if there
// is no such row.
func (r Row) AdmitShared(ctx context.Context, tx *sql.Tx, key any, t fencing.Token) error {
	return r.run(ctx, "admit shared", tx, key, t, func(c columns, resource string) error {
		if r.Exclusive == "" {
			return errOneRegister
		}
		var highest, exclusive fencing.Token
		err := tx.QueryRowContext(ctx, "SELECT "+c.token+", "+c.exclusive+c.from()+r.Dialect.table().ForShare(), key).Scan(&highest, &exclusive)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return ErrNoRow
		case err != nil:
			return err
		case exclusive >= t:
			return &fencing.StaleError{Resource: resource, Got: t, Highest: exclusive}
		case highest < t:
			return ErrNotRegistered
		}
		return nil
	})
}

// run checks a method's arguments, and does the rest.
func (r Row) run(ctx context.Context, what string, q Querier, key any, t fencing.Token, do func(c columns, resource string) error) error {
	resource := fmt.Sprint(key)
	if b, ok := key.([]byte); ok {
		resource = string(b)
	}
	c, err := r.columns()
	switch {
	case err != nil:
	case ctx == nil:
		err = sqltable.ErrNilContext
	case isNil(q):
		err = sqltable.ErrNilDB
	default:
		err = fencing.Check(resource, t)
	}
	if err == nil {
		err = do(c, resource)
	}
	if stale := (*fencing.StaleError)(nil); err != nil && !errors.As(err, &stale) {
		err = sqltable.Missing(err, r.Table)
	}
	return sqltable.Wrap("sqlfence", what, resource, err)
}

func (r Row) update(ctx context.Context, q Querier, st statement, key any, resource string, t fencing.Token) error {
	res, err := q.ExecContext(ctx, st.update, st.args...)
	if err != nil {
		return err
	}
	switch found, err := r.found(res, t); {
	case err != nil:
		return err
	case found == 1:
		return nil
	case found > 1:
		return fmt.Errorf("%d rows have this key; it must be unique", found)
	}
	var seen fencing.Token
	switch err := q.QueryRowContext(ctx, st.find, key).Scan(&seen); {
	case errors.Is(err, sql.ErrNoRows):
		return ErrNoRow
	case err != nil:
		return err
	case seen > t || seen == t && st.shared:
		return &fencing.StaleError{Resource: resource, Got: t, Highest: seen}
	}
	return fmt.Errorf("%w: it was inserted after the update", ErrNoRow)
}

// found returns how many rows an update found. MySQL counts only the rows that it changed, unless the
// driver asks otherwise. A row that already had the new values shows in the insert ID, which the
// statement sets for each row that it finds.
func (r Row) found(res sql.Result, t fencing.Token) (int64, error) {
	n, err := res.RowsAffected()
	if err != nil || n > 0 || r.Dialect != MySQL {
		return n, err
	}
	if id, err := res.LastInsertId(); err != nil || id != int64(t) {
		return 0, err
	}
	return 1, nil
}

func isNil(q Querier) bool {
	switch q := q.(type) {
	case nil:
		return true
	case *sql.DB:
		return q == nil
	case *sql.Conn:
		return q == nil
	case *sql.Tx:
		return q == nil
	}
	return false
}
