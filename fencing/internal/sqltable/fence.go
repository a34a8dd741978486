package sqltable

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawl-locks/pawl/fencing"
)

// A Fence is the common part of all drivers' fences. It checks the arguments of a method, and names
// the method in its error.
type Fence struct {
	Package string // of the driver's fence, for errors
	Dialect Dialect
	Table   string // DefaultTable if ""
}

// The errors for invalid arguments.
var (
	ErrNilContext = errors.New("nil context")
	ErrNilDB      = errors.New("nil database")
	errNilTx      = errors.New("nil transaction")
)

// Create creates the table unless it is there, and migrates one from before shared tokens.
func (f Fence) Create(ctx context.Context, db DB) error {
	table, err := f.table(ctx, db == nil, ErrNilDB)
	if err == nil {
		err = table.Create(ctx, db)
	}
	if err != nil {
		return fmt.Errorf("%s: create: %w", f.Package, err)
	}
	return nil
}

// Admit is Table.Admit.
func (f Fence) Admit(ctx context.Context, tx Conn, resource string, t fencing.Token) error {
	return f.in(ctx, "admit", tx, resource, t, Table.Admit)
}

// AdmitShared is Table.AdmitShared.
func (f Fence) AdmitShared(ctx context.Context, tx Conn, resource string, t fencing.Token) error {
	return f.in(ctx, "admit shared", tx, resource, t, Table.AdmitShared)
}

// Register is Table.Register in a separate transaction.
func (f Fence) Register(ctx context.Context, db DB, resource string, t fencing.Token) error {
	table, err := f.table(ctx, db == nil, ErrNilDB)
	if err == nil {
		err = fencing.Check(resource, t)
	}
	if err == nil {
		err = db.InTx(ctx, func(c Conn) error { return table.Register(ctx, c, resource, t) })
	}
	return Wrap(f.Package, "register", resource, err)
}

type operation func(t Table, ctx context.Context, c Conn, resource string, token fencing.Token) error

func (f Fence) in(ctx context.Context, what string, tx Conn, resource string, t fencing.Token, do operation) error {
	table, err := f.table(ctx, tx == nil, errNilTx)
	if err == nil {
		err = fencing.Check(resource, t)
	}
	if err == nil {
		err = do(table, ctx, tx, resource, t)
	}
	return Wrap(f.Package, what, resource, err)
}

// table is the Table of f, unless there is no context, or nothing to run statements on.
func (f Fence) table(ctx context.Context, missing bool, whatIsMissing error) (Table, error) {
	table, err := New(f.Dialect, f.Table)
	switch {
	case err != nil:
	case ctx == nil:
		err = ErrNilContext
	case missing:
		err = whatIsMissing
	}
	return table, err
}

// Wrap makes the error of a method of pkg. It leaves a refusal as it is.
func Wrap(pkg, what, resource string, err error) error {
	var stale *fencing.StaleError
	if err == nil || errors.As(err, &stale) {
		return err
	}
	return fmt.Errorf("%s: %s %.64q: %w", pkg, what, resource, err)
}
