package recipes

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database/sqlite"
	"github.com/golang-migrate/migrate/v4/source/iofs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/lock"
	"github.com/pawl-locks/pawl/test/pawltest"
)

// migrateUp migrates on one process at a time; the others wait, and find nothing to do.
func migrateUp(ctx context.Context, client *pawl.Client, m *migrate.Migrate) error {
	return lock.New(client, "migrations/app", lock.Options{}).Do(ctx, func(ctx context.Context, _ *lock.Held) error {
		stop := context.AfterFunc(ctx, func() { m.GracefulStop <- true }) // lost: no further step
		defer stop()
		if err := m.Up(); !errors.Is(err, migrate.ErrNoChange) {
			return err
		}
		return nil
	})
}

func TestMigrationsRunOnce(t *testing.T) {
	etcd := pawltest.New(t)
	path := filepath.Join(t.TempDir(), "app.db")
	files := fstest.MapFS{
		"1_accounts.up.sql": {Data: []byte("CREATE TABLE accounts (id INTEGER PRIMARY KEY);")},
		"2_first.up.sql":    {Data: []byte("INSERT INTO accounts VALUES (1);")},
	}
	done := make(chan error)
	for range 3 {
		db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)")
		require.NoError(t, err)
		t.Cleanup(func() { _ = db.Close() })
		client := etcd.Client(t, pawl.Config{})
		go func() { // ends with its migration
			done <- func() error {
				source, err := iofs.New(files, ".")
				if err != nil {
					return err
				}
				var m *migrate.Migrate
				// The driver makes its table when it is opened, so that is done under a lock, too.
				if err := lock.New(client, "migrations/open", lock.Options{}).Do(t.Context(), func(context.Context, *lock.Held) error {
					driver, err := sqlite.WithInstance(db, &sqlite.Config{})
					if err != nil {
						return err
					}
					m, err = migrate.NewWithInstance("iofs", source, "sqlite", driver)
					return err
				}); err != nil {
					return err
				}
				return migrateUp(t.Context(), client, m)
			}()
		}()
	}
	for range 3 {
		assert.NoError(t, <-done)
	}
	db, err := sql.Open("sqlite", "file:"+path)
	require.NoError(t, err)
	defer func() { _ = db.Close() }()
	var n int
	require.NoError(t, db.QueryRow("SELECT count(*) FROM accounts").Scan(&n))
	assert.Equal(t, 1, n)
}
