package sqlfence

import (
	"errors"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/fencing/internal/sqltable"
)

// columns are the names of a Row as they are written in statements.
type columns struct {
	dialect          sqltable.Dialect
	table, key       string
	token, exclusive string
	hasExclusive     bool
}

func (r Row) columns() (columns, error) {
	d := r.Dialect.table()
	if err := d.Check(); err != nil {
		return columns{}, err
	}
	c := columns{dialect: d, hasExclusive: r.Exclusive != ""}
	var err1, err2, err3, err4 error
	c.table, err1 = d.Quote(r.Table, sqltable.TableName)
	c.key, err2 = d.Quote(r.Key, sqltable.ColumnName)
	c.token, err3 = d.Quote(r.Token, sqltable.ColumnName)
	if c.hasExclusive {
		c.exclusive, err4 = d.Quote(r.Exclusive, sqltable.ColumnName)
	}
	return c, errors.Join(err1, err2, err3, err4)
}

// A statement updates a row, or does not find it. Then find shows why: it reads the register
// that decides.
type statement struct {
	update string
	args   []any
	find   string
	shared bool
}

// update sets the columns in set, and both registers, if the highest is not above t.
func (c columns) update(set string, args []any, key any, t fencing.Token) statement {
	st := statement{args: append([]any(nil), args...), find: c.find(c.token)}
	if set != "" {
		set += ", "
	}
	if c.hasExclusive {
		set += c.exclusive + " = " + c.arg(&st, int64(t)) + ", "
	}
	set += c.token + " = " + c.seen(c.arg(&st, int64(t)))
	st.update = "UPDATE " + c.table + " SET " + set + " WHERE " + c.key + " = " + c.arg(&st, key) + " AND " + c.token + " <= " + c.arg(&st, int64(t))
	return st
}

// register raises the highest register to t, if the exclusive one is below it.
func (c columns) register(key any, t fencing.Token) statement {
	st := statement{find: c.find(c.exclusive), shared: true}
	greatest := "GREATEST"
	if c.dialect == sqltable.SQLite {
		greatest = "max"
	}
	st.update = "UPDATE " + c.table + " SET " + c.token + " = " + greatest + "(" + c.token + ", " + c.seen(c.arg(&st, int64(t))) + ")" +
		" WHERE " + c.key + " = " + c.arg(&st, key) + " AND " + c.exclusive + " < " + c.arg(&st, int64(t))
	return st
}

// arg adds an argument and returns its placeholder.
func (c columns) arg(st *statement, value any) string {
	st.args = append(st.args, value)
	return c.dialect.Placeholder(len(st.args))
}

// seen is a token that shows in the insert ID of MySQL: see Row.found.
func (c columns) seen(token string) string {
	if c.dialect == sqltable.MySQL {
		return "LAST_INSERT_ID(" + token + ")"
	}
	return token
}

// find makes MySQL read the current state, even in a transaction whose snapshot is older.
func (c columns) find(register string) string {
	if c.dialect == sqltable.MySQL {
		return "SELECT " + register + c.from() + " FOR UPDATE"
	}
	return "SELECT " + register + c.from()
}

func (c columns) from() string {
	return " FROM " + c.table + " WHERE " + c.key + " = " + c.dialect.Placeholder(1)
}
