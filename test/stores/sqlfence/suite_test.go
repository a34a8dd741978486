package sqlfence_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/fencing/fencetest"
	"github.com/pawl-locks/pawl/fencing/sqlfence"
)

// guarded is a Fence as the suite wants it: each call a transaction.
type guarded struct{ *desk }

func (g guarded) Read(ctx context.Context, resource string, t fencing.Token) (value string, err error) {
	err = g.transact(ctx, resource, t, (*sql.Tx).Commit, func(tx *sql.Tx) error {
		value, err = g.get(ctx, tx, resource)
		return err
	})
	return value, err
}

func (g guarded) ReadShared(ctx context.Context, resource string, t fencing.Token) (string, error) {
	if err := g.fence.Register(ctx, g.db, resource, t); err != nil {
		return "", err
	}
	return g.readAs(ctx, resource, func(tx *sql.Tx) error { return g.fence.AdmitShared(ctx, tx, resource, t) })
}

// readAs reads in a transaction that admits first.
func (d *desk) readAs(ctx context.Context, resource string, admit func(tx *sql.Tx) error) (string, error) {
	tx, err := d.db.BeginTx(ctx, &sql.TxOptions{Isolation: d.level})
	if err != nil {
		return "", err
	}
	defer func() { _ = tx.Rollback() }()
	if err := admit(tx); err != nil {
		return "", err
	}
	value, err := d.get(ctx, tx, resource)
	return value, errors.Join(err, tx.Commit())
}

func (g guarded) Write(ctx context.Context, resource string, t fencing.Token, value string) error {
	return g.transact(ctx, resource, t, (*sql.Tx).Commit, func(tx *sql.Tx) error { return g.put(ctx, tx, resource, value) })
}

func (g guarded) transact(ctx context.Context, resource string, t fencing.Token, end func(*sql.Tx) error, work func(*sql.Tx) error) error {
	tx, err := g.db.BeginTx(ctx, &sql.TxOptions{Isolation: g.level})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if err := g.fence.Admit(ctx, tx, resource, t); err != nil {
		return err
	}
	if err := work(tx); err != nil {
		return err
	}
	return end(tx)
}

// rows is a Row, whose statement that writes is the one that asks.
type rows struct{ *desk }

func (r rows) row() sqlfence.Row {
	return sqlfence.Row{Dialect: r.Dialect, Table: r.values, Key: "resource", Token: "token", Exclusive: "alone"}
}

// make has the row there, as Row wants it.
func (r rows) make(ctx context.Context, resource string, t fencing.Token) error {
	if fencing.Check(resource, t) != nil {
		return nil // for Row to refuse
	}
	insert := "INSERT INTO " + r.values + " (resource, value) VALUES (%s, %s) ON CONFLICT DO NOTHING"
	if r.Dialect == sqlfence.MySQL {
		insert = "INSERT IGNORE INTO " + r.values + " (resource, value) VALUES (%s, %s)"
	}
	_, err := r.db.ExecContext(ctx, r.sql(insert), r.name(resource), "")
	return err
}

func (r rows) Read(ctx context.Context, resource string, t fencing.Token) (string, error) {
	if err := r.make(ctx, resource, t); err != nil {
		return "", err
	}
	return r.readAs(ctx, resource, func(tx *sql.Tx) error { return r.row().Admit(ctx, tx, r.name(resource), t) })
}

func (r rows) ReadShared(ctx context.Context, resource string, t fencing.Token) (string, error) {
	if err := r.make(ctx, resource, t); err != nil {
		return "", err
	}
	if err := r.row().Register(ctx, r.db, r.name(resource), t); err != nil {
		return "", err
	}
	return r.readAs(ctx, resource, func(tx *sql.Tx) error { return r.row().AdmitShared(ctx, tx, r.name(resource), t) })
}

func (r rows) Write(ctx context.Context, resource string, t fencing.Token, value string) error {
	if err := r.make(ctx, resource, t); err != nil {
		return err
	}
	set := "value = ?"
	if r.Dialect == sqlfence.Postgres {
		set = "value = $1"
	}
	return r.row().Update(ctx, r.db, r.name(resource), t, set, value)
}

func deskOf(s fencetest.Store) *desk {
	if g, ok := s.(guarded); ok {
		return g.desk
	}
	return s.(rows).desk
}

func suite(d database, open func(*desk) fencetest.Store) fencetest.Suite {
	return fencetest.Suite{
		Open: func(t *testing.T) fencetest.Store { return open(d.open(t)) },
		Join: func(t *testing.T, s fencetest.Store) fencetest.Store {
			second := *deskOf(s)
			second.connect(t)
			return open(&second)
		},
		Peek: func(ctx context.Context, s fencetest.Store, resource string) (string, error) {
			return deskOf(s).get(ctx, deskOf(s).db, resource)
		},
		Restart: func(t *testing.T, s fencetest.Store) fencetest.Store {
			desk := deskOf(s)
			_ = desk.db.Close()
			if d.crash != nil {
				d.crash(t)
			}
			desk.connect(t)
			return open(desk)
		},
		LoseAnswer: func(ctx context.Context, s fencetest.Store, resource string, token fencing.Token, value string) error {
			if err := s.Write(ctx, resource, token, value); err != nil {
				return err
			}
			return errors.New("connection reset")
		},
	}
}

// rule: K2
func TestFencePassesTheSuite(t *testing.T) {
	onEach(t, func(t *testing.T, d database) {
		s := suite(d, func(desk *desk) fencetest.Store { return guarded{desk} })
		s.Abort = func(ctx context.Context, s fencetest.Store, resource string, token fencing.Token, value string) error {
			g := s.(guarded)
			return g.transact(ctx, resource, token, (*sql.Tx).Rollback, func(tx *sql.Tx) error { return g.put(ctx, tx, resource, value) })
		}
		s.Run(t)
	})
}

func TestRowPassesTheSuite(t *testing.T) {
	onEach(t, func(t *testing.T, d database) {
		s := suite(d, func(desk *desk) fencetest.Store { return rows{desk} })
		s.Abort = func(ctx context.Context, s fencetest.Store, resource string, token fencing.Token, value string) error {
			r := s.(rows)
			if err := r.make(ctx, resource, token); err != nil {
				return err
			}
			tx, err := r.db.BeginTx(ctx, &sql.TxOptions{Isolation: r.level})
			if err != nil {
				return err
			}
			if err := r.row().Admit(ctx, tx, r.name(resource), token); err != nil {
				return err
			}
			return errors.Join(r.put(ctx, tx, resource, value), tx.Rollback())
		}
		s.Run(t)
	})
}
