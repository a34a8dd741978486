package sqlfence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/pawl-locks/pawl/fencing"
)

// A Row guards tables that keep the highest token in a column of their own: each call is one statement, which finds the row only while its token is not
// greater, and sets it. It needs no transaction, and works in one. The row must be there: insert it beforehand with token 0, or guard its
// creation by a Fence.
//
//	accounts := sqlfence.Row{Dialect: sqlfence.Postgres, Table: "accounts", Key: "id", Token: "fence"}   // fence BIGINT NOT NULL DEFAULT 0
//	err := accounts.Admit(ctx, db, 42, held.Token())                                                     // once, before the first read
//	err = accounts.Update(ctx, db, 42, held.Token(), "balance = $1", 100)
type Row struct {
	Dialect Dialect
	Table   string // "schema.table" is allowed
	Key     string // column whose value names the row; it must be unique
	Token   string // column for the highest token: BIGINT NOT NULL
}

// A Querier is a *sql.DB, a *sql.Conn or a *sql.Tx.
type Querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Admit registers t for the row whose Key is key, and changes nothing else. A new holder calls it before its first read of the row. Errors are
// those of Update.
func (r Row) Admit(ctx context.Context, q Querier, key any, t fencing.Token) error {
	return r.Update(ctx, q, key, t, "")
}

// Update sets columns of the row whose Key is key, if no greater token was admitted for it. set is what stands between SET and
// WHERE, with its arguments as placeholders of the dialect, numbered from 1; it is the caller's text, and not checked. It must not set Key or Token.
//
// It returns a *fencing.StaleError, whose Resource is key's text, and writes nothing if a greater token is there; an error matching ErrNoRow if
// there is no such row. Two that race are ordered by the database's lock on the row. Where an answer is lost, the same call can be made again with
// a set that does not build on what it replaces, as "n = n + 1" does. In MySQL it sets the connection's LAST_INSERT_ID(). Of several rows with this key all are written, and the error says so.
func (r Row) Update(ctx context.Context, q Querier, key any, t fencing.Token, set string, args ...any) error {
	resource := fmt.Sprint(key)
	if b, ok := key.([]byte); ok {
		resource = string(b)
	}
	st, err := r.statements(set, len(args))
	switch {
	case err != nil:
	case ctx == nil:
		err = errNilContext
	case isNil(q):
		err = errNilDB
	default:
		err = fencing.Check(resource, t)
	}
	if err == nil {
		err = r.run(ctx, q, st, key, resource, t, args)
	}
	var stale *fencing.StaleError
	if err == nil || errors.As(err, &stale) {
		return err
	}
	return fmt.Errorf("sqlfence: update %.64q: %w", resource, missing(err, r.Table))
}

func (r Row) run(ctx context.Context, q Querier, st statements, key any, resource string, t fencing.Token, args []any) error {
	all := append(append([]any(nil), args...), int64(t), key, int64(t))
	res, err := q.ExecContext(ctx, st.update, all...)
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
	var highest fencing.Token
	switch err := q.QueryRowContext(ctx, st.find, key).Scan(&highest); {
	case errors.Is(err, sql.ErrNoRows):
		return ErrNoRow
	case err != nil:
		return err
	case highest > t:
		return &fencing.StaleError{Resource: resource, Got: t, Highest: highest}
	}
	return fmt.Errorf("%w: it was inserted after the update", ErrNoRow)
}

// found returns how many rows an update found. MySQL counts only the rows that it changed, unless the driver asks otherwise; one that was already as it
// was to become shows in the insert ID, which the statement sets for each row that it finds.
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

type statements struct{ update, find string }

// statements writes both statements for set, which has n arguments.
func (r Row) statements(set string, n int) (statements, error) {
	if err := r.Dialect.check(); err != nil {
		return statements{}, err
	}
	table, err1 := r.Dialect.quote(r.Table, tableName)
	key, err2 := r.Dialect.quote(r.Key, columnName)
	token, err3 := r.Dialect.quote(r.Token, columnName)
	if err := errors.Join(err1, err2, err3); err != nil {
		return statements{}, err
	}
	if set != "" {
		set += ", "
	}
	place := r.Dialect.place
	value := place(n + 1)
	if r.Dialect == MySQL {
		value = "LAST_INSERT_ID(" + value + ")" // see found
	}
	return statements{
		update: "UPDATE " + table + " SET " + set + token + " = " + value + " WHERE " + key + " = " + place(n+2) + " AND " + token + " <= " + place(n+3),
		find:   "SELECT " + token + " FROM " + table + " WHERE " + key + " = " + place(1) + forUpdate(r.Dialect),
	}, nil
}

// forUpdate makes MySQL read what is there now, also in a transaction whose snapshot is older.
func forUpdate(d Dialect) string {
	if d == MySQL {
		return " FOR UPDATE"
	}
	return ""
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
