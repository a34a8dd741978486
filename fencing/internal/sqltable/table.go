package sqltable

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/pawl-locks/pawl/fencing"
)

// The errors of a Table.
var (
	ErrNoTable       = errors.New("no such table; has Create been called?")
	ErrNotRegistered = errors.New("the shared token was not registered; call Register before the first read")
)

// DefaultTable is the table of a fence without a table name.
const DefaultTable = "pawl_fence"

// A Conn runs statements, all in one transaction or each in a separate one.
type Conn interface {
	Exec(ctx context.Context, query string, args ...any) error
	// QueryRow scans the one row of a query into dest. Without a row the error matches sql.ErrNoRows.
	QueryRow(ctx context.Context, query string, args []any, dest ...any) error
}

// A Table has a row for each resource: highest is the highest token of either mode, exclusive the
// highest exclusive one.
type Table struct {
	Dialect Dialect
	name    string // quoted
}

// New checks a dialect and the name of a table. "" means DefaultTable.
func New(d Dialect, name string) (Table, error) {
	if err := d.Check(); err != nil {
		return Table{}, err
	}
	if name == "" {
		name = DefaultTable
	}
	quoted, err := d.Quote(name, TableName)
	return Table{d, quoted}, err
}

// Admit admits an exclusive token in the transaction c. Nobody else is admitted for resource until it ends.
func (t Table) Admit(ctx context.Context, c Conn, resource string, token fencing.Token) error {
	highest, err := t.raise(ctx, c, t.exclusive(), resource, token)
	if err != nil {
		return t.missing(err)
	}
	if highest > token {
		return &fencing.StaleError{Resource: resource, Got: token, Highest: highest}
	}
	return nil
}

// Register registers a shared token in the transaction c, in which nothing else is done.
func (t Table) Register(ctx context.Context, c Conn, resource string, token fencing.Token) error {
	exclusive, err := t.raise(ctx, c, t.shared(), resource, token)
	if err != nil {
		return t.missing(err)
	}
	if exclusive >= token {
		return &fencing.StaleError{Resource: resource, Got: token, Highest: exclusive}
	}
	return nil
}

// AdmitShared admits a registered shared token in the transaction c. No exclusive one is admitted
// for resource until it ends.
func (t Table) AdmitShared(ctx context.Context, c Conn, resource string, token fencing.Token) error {
	var highest, exclusive fencing.Token
	query := "SELECT highest, exclusive FROM " + t.name + " WHERE resource = " + t.Dialect.Placeholder(1) + t.Dialect.ForShare()
	err := c.QueryRow(ctx, query, []any{t.Dialect.resource(resource)}, &highest, &exclusive)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return ErrNotRegistered
	case err != nil:
		return t.missing(err)
	case exclusive >= token:
		return &fencing.StaleError{Resource: resource, Got: token, Highest: exclusive}
	case highest < token:
		return fmt.Errorf("%w: the highest is %d", ErrNotRegistered, int64(highest))
	}
	return nil
}

// missing adds ErrNoTable to a driver's error for a missing table. No driver is imported:
// PostgreSQL's errors have a method for the SQLSTATE, the others are recognised by their text.
// An error that is not recognised is still returned.
func (t Table) missing(err error) error { return Missing(err, t.name) }

// Missing is missing for any table.
func Missing(err error, table string) error {
	state := ""
	var s interface{ SQLState() string }
	if errors.As(err, &s) {
		state = s.SQLState()
	}
	text := err.Error()
	if state == "42P01" || strings.Contains(text, "no such table") || strings.Contains(text, "(42S02)") {
		return fmt.Errorf("%s: %w: %w", table, ErrNoTable, err)
	}
	return err
}
