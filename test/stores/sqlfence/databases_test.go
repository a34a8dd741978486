package sqlfence_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite"

	"github.com/pawl-locks/pawl/fencing/sqlfence"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
	"github.com/pawl-locks/pawl/test/stores/realdb"
)

func TestMain(m *testing.M) {
	testscale.SideBySide(3) // the databases
	os.Exit(realdb.Main(m))
}

// A database is one of those that everything here is tested on.
type database struct {
	sqlfence.Dialect
	driver string
	source func(t testing.TB) string // of an empty or shared database; each test has separate tables
	crash  func(t testing.TB)        // nil if reopening the file is all there is
	binary string                    // column type
	// impatient is source for connections that wait for no lock, and denied what they say instead.
	impatient func(source string) string
	denied    string
	level     sql.IsolationLevel // the database's default if 0
}

var databases = []database{
	{sqlfence.SQLite, "sqlite", sqliteSource, nil, "TEXT", impatientSQLite, "database is locked", 0},
	{sqlfence.Postgres, "pgx", realdb.Postgres, realdb.CrashPostgres, "bytea", impatientPostgres, "canceling statement due to lock timeout", 0},
	{sqlfence.MySQL, "mysql", realdb.MariaDB, realdb.CrashMariaDB, "VARBINARY(1024)", impatientMySQL, "Lock wait timeout exceeded", 0},
}

// SQLite as the package comment says, except that it waits for no disk.
func sqliteSource(t testing.TB) string {
	return "file:" + filepath.Join(t.TempDir(), "fence.db") + "?_txlock=immediate&_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(OFF)"
}

// deferred is the same without immediate transactions.
func deferred(source string) string { return strings.Replace(source, "_txlock=immediate&", "", 1) }

func impatientSQLite(source string) string {
	return strings.Replace(source, "busy_timeout(10000)", "busy_timeout(0)", 1)
}

// The shortest that there is. It begins where a statement has found a lock taken.
func impatientPostgres(source string) string { return source + " lock_timeout=1" }

func impatientMySQL(source string) string { return source + "?innodb_lock_wait_timeout=0" }

// onEach runs f on all databases side by side, and one test at a time on each: some end the server.
func onEach(t *testing.T, f func(t *testing.T, d database)) {
	for _, d := range databases {
		t.Run(d.Dialect.String(), func(t *testing.T) {
			t.Parallel()
			f(t, d)
		})
	}
}

var tables atomic.Int64

// A desk is a database with a fence and a table of values, both empty.
type desk struct {
	database
	db     *sql.DB
	path   string // data source
	fence  sqlfence.Fence
	values string
}

func (d database) open(t testing.TB) *desk {
	t.Helper()
	n := tables.Add(1)
	desk := &desk{database: d, path: d.source(t), fence: sqlfence.Fence{Dialect: d.Dialect, Table: fmt.Sprint("fence_", n)}, values: fmt.Sprint("vals_", n)}
	desk.connect(t)
	require.NoError(t, desk.fence.Create(t.Context(), desk.db))
	desk.exec(t, "CREATE TABLE "+desk.values+" (resource "+d.binary+" NOT NULL PRIMARY KEY, value TEXT NOT NULL, token BIGINT NOT NULL DEFAULT 0, alone BIGINT NOT NULL DEFAULT 0)")
	return desk
}

func (d *desk) connect(t testing.TB) {
	t.Helper()
	db, err := sql.Open(d.driver, d.path)
	require.NoError(t, err)
	db.SetMaxOpenConns(16)
	t.Cleanup(func() { _ = db.Close() })
	d.db = db
}

func (d *desk) exec(t testing.TB, query string, args ...any) {
	t.Helper()
	_, err := d.db.ExecContext(t.Context(), query, args...)
	require.NoError(t, err)
}

func (d *desk) name(resource string) any {
	if d.Dialect == sqlfence.SQLite {
		return resource
	}
	return []byte(resource)
}

// sql writes a statement's placeholders as the dialect has them.
func (d *desk) sql(format string) string {
	if d.Dialect == sqlfence.Postgres {
		return fmt.Sprintf(format, "$1", "$2")
	}
	return fmt.Sprintf(format, "?", "?")
}

type querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func (d *desk) get(ctx context.Context, q querier, resource string) (value string, err error) {
	err = q.QueryRowContext(ctx, d.sql("SELECT value FROM "+d.values+" WHERE resource = %[1]s"), d.name(resource)).Scan(&value)
	if err == sql.ErrNoRows {
		return "", nil
	}
	return value, err
}

func (d *desk) put(ctx context.Context, q querier, resource, value string) error {
	set := " ON CONFLICT (resource) DO UPDATE SET value = excluded.value"
	if d.Dialect == sqlfence.MySQL {
		set = " ON DUPLICATE KEY UPDATE value = VALUES(value)"
	}
	_, err := q.ExecContext(ctx, d.sql("INSERT INTO "+d.values+" (resource, value) VALUES (%s, %s)"+set), d.name(resource), value)
	return err
}

func (d *desk) begin(t testing.TB) *sql.Tx {
	t.Helper()
	tx, err := d.db.BeginTx(t.Context(), &sql.TxOptions{Isolation: d.level})
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback() })
	return tx
}
