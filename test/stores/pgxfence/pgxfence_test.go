package pgxfence_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/fencing/fencetest"
	"github.com/pawl-locks/pawl/fencing/pgxfence"
	"github.com/pawl-locks/pawl/test/stores/realdb"
)

func TestMain(m *testing.M) { os.Exit(realdb.Main(m)) }

var tables atomic.Int64

// A desk is a pool with a fence and a table of values.
type desk struct {
	*pgxpool.Pool
	source string
	fence  pgxfence.Fence
	values string
}

func (d desk) connect(t testing.TB) desk {
	pool, err := pgxpool.New(t.Context(), d.source)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	d.Pool = pool
	return d
}

func open(t testing.TB) desk {
	n := tables.Add(1)
	d := desk{source: realdb.Postgres(t), fence: pgxfence.Fence{Table: fmt.Sprint("Pgx_", n)}, values: fmt.Sprint("pgx_vals_", n)}.connect(t)
	require.NoError(t, d.fence.Create(t.Context(), d))
	d.exec(t, "CREATE TABLE "+d.values+" (resource bytea PRIMARY KEY, value text NOT NULL)")
	return d
}

func (d desk) exec(t testing.TB, query string) {
	_, err := d.Exec(t.Context(), query)
	require.NoError(t, err)
}

func (d desk) peek(ctx context.Context, q interface {
	QueryRow(ctx context.Context, query string, args ...any) pgx.Row
}, resource string) (value string, err error) {
	err = q.QueryRow(ctx, "SELECT value FROM "+d.values+" WHERE resource = $1", []byte(resource)).Scan(&value)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", nil
	}
	return value, err
}

// transact does the work in a transaction that admits first, and ends it.
func (d desk) transact(ctx context.Context, admit, work func(tx pgx.Tx) error, end func(pgx.Tx, context.Context) error) error {
	tx, err := d.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	if err := admit(tx); err != nil {
		return err
	}
	if err := work(tx); err != nil {
		return err
	}
	return end(tx, ctx)
}

func (d desk) read(ctx context.Context, resource string, admit func(tx pgx.Tx) error) (value string, err error) {
	err = d.transact(ctx, admit, func(tx pgx.Tx) error { value, err = d.peek(ctx, tx, resource); return err }, pgx.Tx.Commit)
	return value, err
}

func (d desk) Read(ctx context.Context, resource string, t fencing.Token) (string, error) {
	return d.read(ctx, resource, func(tx pgx.Tx) error { return d.fence.Admit(ctx, tx, resource, t) })
}

func (d desk) ReadShared(ctx context.Context, resource string, t fencing.Token) (string, error) {
	if err := d.fence.Register(ctx, d, resource, t); err != nil {
		return "", err
	}
	return d.read(ctx, resource, func(tx pgx.Tx) error { return d.fence.AdmitShared(ctx, tx, resource, t) })
}

func (d desk) write(ctx context.Context, resource string, t fencing.Token, value string, end func(pgx.Tx, context.Context) error) error {
	return d.transact(ctx, func(tx pgx.Tx) error { return d.fence.Admit(ctx, tx, resource, t) }, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "INSERT INTO "+d.values+" VALUES ($1, $2) ON CONFLICT (resource) DO UPDATE SET value = excluded.value", []byte(resource), value)
		return err
	}, end)
}

func (d desk) Write(ctx context.Context, resource string, t fencing.Token, value string) error {
	return d.write(ctx, resource, t, value, pgx.Tx.Commit)
}

func TestPgxFencePassesTheSuite(t *testing.T) {
	fencetest.Suite{
		Open: func(t *testing.T) fencetest.Store { return open(t) },
		Join: func(t *testing.T, s fencetest.Store) fencetest.Store { return s.(desk).connect(t) },
		Peek: func(ctx context.Context, s fencetest.Store, resource string) (string, error) {
			return s.(desk).peek(ctx, s.(desk), resource)
		},
		Restart: func(t *testing.T, s fencetest.Store) fencetest.Store {
			s.(desk).Close()
			realdb.CrashPostgres(t)
			return s.(desk).connect(t)
		},
		Abort: func(ctx context.Context, s fencetest.Store, resource string, token fencing.Token, value string) error {
			return s.(desk).write(ctx, resource, token, value, pgx.Tx.Rollback)
		},
		LoseAnswer: func(ctx context.Context, s fencetest.Store, resource string, token fencing.Token, value string) error {
			if err := s.Write(ctx, resource, token, value); err != nil {
				return err
			}
			return errors.New("connection reset")
		},
	}.Run(t)
}

func TestPgxFenceCreatesItsTableAndMigratesAnOldOne(t *testing.T) {
	d := open(t)
	old := pgxfence.Fence{Table: d.fence.Table + "_old"}
	d.exec(t, `CREATE TABLE "`+old.Table+`" (resource bytea PRIMARY KEY, token bigint NOT NULL CHECK (token > 0))`)
	d.exec(t, `INSERT INTO "`+old.Table+`" VALUES ('jobs/42', 57)`)
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() { assert.NoError(t, old.Create(t.Context(), d)) }) // ends with the statements
	}
	wg.Wait()
	var stale *fencing.StaleError
	require.ErrorAs(t, old.Register(t.Context(), d, "jobs/42", 57), &stale)
	assert.Equal(t, fencing.StaleError{Resource: "jobs/42", Got: 57, Highest: 57}, *stale)
	require.NoError(t, old.Register(t.Context(), d, "jobs/42", 58))
	d.exec(t, `CREATE TABLE other (a int)`)
	assert.ErrorContains(t, pgxfence.Fence{Table: "other"}.Create(t.Context(), d), "pgxfence: create: ")
}

func TestPgxFenceRefusesBadInputAndSaysSo(t *testing.T) {
	d := open(t)
	tx, err := d.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.Background()) }()
	assert.ErrorIs(t, d.fence.Admit(t.Context(), tx, "jobs/42", 0), fencing.ErrNoToken)
	assert.ErrorIs(t, d.fence.AdmitShared(t.Context(), tx, "", 57), fencing.ErrNoResource)
	assert.ErrorIs(t, d.fence.AdmitShared(t.Context(), tx, "jobs/42", 57), pgxfence.ErrNotRegistered)
	assert.ErrorIs(t, d.fence.Register(t.Context(), d, "jobs/42", -1), fencing.ErrNoToken)
	assert.EqualError(t, d.fence.Admit(t.Context(), nil, "jobs/42", 57), `pgxfence: admit "jobs/42": nil transaction`)
	assert.EqualError(t, d.fence.Register(t.Context(), nil, "jobs/42", 57), `pgxfence: register "jobs/42": nil database`)
	assert.EqualError(t, d.fence.Create(t.Context(), nil), "pgxfence: create: nil database")
	assert.ErrorIs(t, pgxfence.Fence{Table: "a b"}.Create(t.Context(), d), pgxfence.ErrBadName)
	assert.ErrorIs(t, pgxfence.Fence{Table: "nowhere"}.Register(t.Context(), d, "jobs/42", 57), pgxfence.ErrNoTable)
}
