package demo

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"

	_ "modernc.org/sqlite" // the driver

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/fencing/sqlfence"
)

// store is the demo's storage, a SQLite file with a counter, a log of who wrote it, and the table
// of the fence. Each contender opens it in its process.
type store struct {
	db    *sql.DB
	fence sqlfence.Fence
}

// write is one line of the log.
type write struct {
	Worker      string
	Token       fencing.Token
	Was, Became int64
}

const storeSchema = `
CREATE TABLE counter (value INTEGER NOT NULL);
INSERT INTO counter VALUES (0);
CREATE TABLE writes (seq INTEGER PRIMARY KEY, worker TEXT NOT NULL, token INTEGER NOT NULL, was INTEGER NOT NULL, became INTEGER NOT NULL);`

func openStore(path string) (*store, error) {
	db, err := sql.Open("sqlite", "file:"+filepath.ToSlash(path)+
		"?_txlock=immediate&_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
	if err != nil {
		return nil, err
	}
	return &store{db, sqlfence.Fence{Dialect: sqlfence.SQLite}}, nil
}

func createStore(ctx context.Context, path string) (*store, error) {
	s, err := openStore(path)
	if err != nil {
		return nil, err
	}
	if _, err = s.db.ExecContext(ctx, storeSchema); err == nil {
		err = s.fence.Create(ctx, s.db)
	}
	if err != nil {
		return nil, errors.Join(err, s.db.Close())
	}
	return s, nil
}

// under runs f in a transaction in which t was admitted for resource.
func (s *store) under(ctx context.Context, resource string, t fencing.Token, f func(tx *sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // after a Commit it does nothing
	if err := s.fence.Admit(ctx, tx, resource, t); err != nil {
		return err
	}
	if err := f(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// read registers t and reads the counter.
func (s *store) read(ctx context.Context, resource string, t fencing.Token) (value int64, err error) {
	err = s.under(ctx, resource, t, func(tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, "SELECT value FROM counter").Scan(&value)
	})
	return value, err
}

// write sets the counter and logs it, unless t is stale.
func (s *store) write(ctx context.Context, resource string, w write) error {
	return s.under(ctx, resource, w.Token, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "UPDATE counter SET value = ?", w.Became); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "INSERT INTO writes (worker, token, was, became) VALUES (?, ?, ?, ?)", w.Worker, int64(w.Token), w.Was, w.Became)
		return err
	})
}

// history is the log, the first write first, and what the counter is now.
func (s *store) history(ctx context.Context) (log []write, value int64, err error) {
	rows, err := s.db.QueryContext(ctx, "SELECT worker, token, was, became FROM writes ORDER BY seq")
	if err != nil {
		return nil, 0, err
	}
	defer rows.Close()
	for rows.Next() {
		var w write
		if err := rows.Scan(&w.Worker, &w.Token, &w.Was, &w.Became); err != nil {
			return nil, 0, err
		}
		log = append(log, w)
	}
	if err := rows.Err(); err != nil {
		return nil, 0, err
	}
	if err := s.db.QueryRowContext(ctx, "SELECT value FROM counter").Scan(&value); err != nil {
		return nil, 0, fmt.Errorf("counter: %w", err)
	}
	return log, value, nil
}
