//go:build unix

package fleet_test

import (
	"context"
	"database/sql"
	"errors"

	_ "modernc.org/sqlite"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/fencing/blobfence"
	"github.com/pawl-locks/pawl/fencing/sqlfence"
	"github.com/pawl-locks/pawl/internal/testkit/fleet"
)

// A sqlStore keeps each set in a row. Reads and writes are transactions; with the guard each begins
// with Admit.
type sqlStore struct {
	*sql.DB
	fence sqlfence.Fence
	guard bool
}

func openSQL(driver string, dialect sqlfence.Dialect) fleet.Opener {
	return func(source string, guard bool) (fleet.Store, error) {
		db, err := sql.Open(driver, source)
		if err != nil {
			return nil, err
		}
		db.SetMaxOpenConns(2)
		return sqlStore{db, sqlfence.Fence{Dialect: dialect, Table: "fleet_fence"}, guard}, nil
	}
}

func (s sqlStore) transact(ctx context.Context, resource string, t fencing.Token, work func(*sql.Tx) error) error {
	tx, err := s.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if s.guard {
		if err := s.fence.Admit(ctx, tx, resource, t); err != nil {
			return err
		}
	}
	if err := work(tx); err != nil {
		return err
	}
	return tx.Commit()
}

func (s sqlStore) Read(ctx context.Context, resource string, t fencing.Token) (value string, err error) {
	err = s.transact(ctx, resource, t, func(tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, "SELECT ids FROM fleet_sets WHERE name = '"+resource+"'").Scan(&value)
	})
	return value, err
}

func (s sqlStore) ReadShared(ctx context.Context, resource string, t fencing.Token) (value string, err error) {
	if err := s.fence.Register(ctx, s.DB, resource, t); err != nil {
		return "", err
	}
	tx, err := s.BeginTx(ctx, nil)
	if err != nil {
		return "", err
	}
	defer func() { _ = tx.Rollback() }()
	if err := s.fence.AdmitShared(ctx, tx, resource, t); err != nil {
		return "", err
	}
	err = tx.QueryRowContext(ctx, "SELECT ids FROM fleet_sets WHERE name = '"+resource+"'").Scan(&value)
	return value, errors.Join(err, tx.Commit())
}

func (s sqlStore) Write(ctx context.Context, resource string, t fencing.Token, value string) error {
	return s.transact(ctx, resource, t, func(tx *sql.Tx) error {
		// Names and values are letters, digits, points and spaces; so all dialects take the same text.
		_, err := tx.ExecContext(ctx, "UPDATE fleet_sets SET ids = '"+value+"' WHERE name = '"+resource+"'")
		return err
	})
}

// create makes the tables, with the rows of a new run.
func (s sqlStore) create(ctx context.Context) error {
	if err := s.fence.Create(ctx, s.DB); err != nil {
		return err
	}
	text := "TEXT"
	if s.fence.Dialect == sqlfence.MySQL {
		text = "LONGTEXT"
	}
	for _, statement := range []string{
		"DROP TABLE IF EXISTS fleet_sets",
		"DELETE FROM fleet_fence",
		"CREATE TABLE fleet_sets (name VARCHAR(20) PRIMARY KEY, ids " + text + " NOT NULL)",
		"INSERT INTO fleet_sets VALUES ('set0', ''), ('set1', ''), ('set2', '')",
	} {
		if _, err := s.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

func openDir(path string, guard bool) (fleet.Store, error) {
	return fleet.Blobs(blobfence.Dir{Path: path}, guard), nil
}
