//go:build unix

package realdb

import (
	"database/sql"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { os.Exit(Main(m)) }

func TestServersAnswerWithTheirVersion(t *testing.T) {
	_ = Postgres
	for driver, source := range map[string]func(testing.TB) string{"pgx": Postgres, "mysql": MariaDB} {
		t.Run(driver, func(t *testing.T) {
			db, err := sql.Open(driver, source(t))
			require.NoError(t, err)
			defer db.Close()
			var version string
			require.NoError(t, db.QueryRowContext(t.Context(), "SELECT version()").Scan(&version))
			t.Log(version)
		})
	}
}

func TestServersKeepWhatWasCommittedOverACrash(t *testing.T) {
	for driver, server := range map[string]struct {
		source func(testing.TB) string
		crash  func(testing.TB)
	}{"pgx": {Postgres, CrashPostgres}, "mysql": {MariaDB, CrashMariaDB}} {
		t.Run(driver, func(t *testing.T) {
			db, err := sql.Open(driver, server.source(t))
			require.NoError(t, err)
			defer db.Close()
			_, err = db.ExecContext(t.Context(), "CREATE TABLE kept (n int)")
			require.NoError(t, err)
			server.crash(t)
			again, err := sql.Open(driver, server.source(t))
			require.NoError(t, err)
			defer again.Close()
			_, err = again.ExecContext(t.Context(), "DROP TABLE kept")
			require.NoError(t, err)
		})
	}
}
