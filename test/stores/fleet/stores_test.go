//go:build unix

package fleet_test

import (
	"context"
	"database/sql"
	"errors"
	"time"

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

// A dirStore keeps each set in a file.
type dirStore struct {
	blobfence.Fence
	guard bool
}

func openDir(path string, guard bool) (fleet.Store, error) {
	return dirStore{blobfence.Fence{Store: blobfence.Dir{Path: path}, Attempts: 100}, guard}, nil
}

func (s dirStore) Close() error { return nil }

func (s dirStore) Read(ctx context.Context, resource string, t fencing.Token) (string, error) {
	var body []byte
	var err error
	if s.guard {
		body, err = s.Fence.Read(ctx, resource, t)
	} else {
		body, _, _, err = s.Store.Get(ctx, resource)
	}
	if errors.Is(err, blobfence.ErrNotFound) {
		err = nil
	}
	return string(body), err
}

func (s dirStore) ReadShared(ctx context.Context, resource string, t fencing.Token) (string, error) {
	body, err := s.Fence.ReadShared(ctx, resource, t)
	if errors.Is(err, blobfence.ErrNotFound) {
		err = nil
	}
	return string(body), err
}

// Write without the guard is conditional on the version of the moment, which is no condition.
func (s dirStore) Write(ctx context.Context, resource string, t fencing.Token, value string) error {
	if s.guard {
		return s.Fence.Write(ctx, resource, t, []byte(value))
	}
	for {
		_, at, err := s.Store.Stat(ctx, resource)
		if err != nil && !errors.Is(err, blobfence.ErrNotFound) {
			return err
		}
		meta := blobfence.Meta{Token: t, Nonce: time.Now().Format("150405.000000000")}
		if err := s.Store.Put(ctx, resource, []byte(value), meta, at); !errors.Is(err, blobfence.ErrChanged) {
			return err
		}
	}
}
