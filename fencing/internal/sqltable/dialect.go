package sqltable

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// A Dialect is the kind of database. The zero Dialect is refused.
type Dialect int

// The supported databases: PostgreSQL from 9.5, MySQL from 5.7 and MariaDB from 10.2 with
// InnoDB, SQLite from 3.25.
const (
	Postgres Dialect = iota + 1
	MySQL
	SQLite
)

// String returns the name of the database.
func (d Dialect) String() string {
	switch d {
	case Postgres:
		return "PostgreSQL"
	case MySQL:
		return "MySQL"
	case SQLite:
		return "SQLite"
	}
	return fmt.Sprintf("Dialect(%d)", int(d))
}

// Check refuses a value that is no dialect.
func (d Dialect) Check() error {
	if d < Postgres || d > SQLite {
		return fmt.Errorf("no such dialect: %v", d)
	}
	return nil
}

// ErrBadName is matched by errors that refuse the name of a table or a column.
var ErrBadName = errors.New("not a name for a table or column")

// The allowed forms of names.
var (
	ColumnName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,62}$`)
	TableName  = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]{0,62}\.)?[A-Za-z_][A-Za-z0-9_]{0,62}$`)
)

// Quote returns a name that allowed matches as it is written in a statement. A dot separates schema and
// table.
func (d Dialect) Quote(name string, allowed *regexp.Regexp) (string, error) {
	if !allowed.MatchString(name) {
		return "", fmt.Errorf("%w: %q", ErrBadName, name)
	}
	q := "`" // SQLite takes "name" for a string, not an error, where there is no such column
	if d == Postgres {
		q = `"`
	}
	return q + strings.ReplaceAll(name, ".", q+"."+q) + q, nil
}

// Placeholder returns the placeholder of the nth argument, counted from 1.
func (d Dialect) Placeholder(n int) string {
	if d == Postgres {
		return "$" + strconv.Itoa(n)
	}
	return "?"
}

// resource returns a resource as the table stores it: in a binary column, so that neither
// encoding nor collation makes two resources equal.
func (d Dialect) resource(resource string) any {
	if d == SQLite {
		return resource // compared byte for byte anyway
	}
	return []byte(resource)
}
