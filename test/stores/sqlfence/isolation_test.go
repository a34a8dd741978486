package sqlfence_test

import (
	"database/sql"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/fencing/fencetest"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
	"github.com/pawl-locks/pawl/test/stores/realdb"
)

// The levels at which the databases work that nobody has set up otherwise: what the other tests
// here rest on.
func TestDatabasesWorkAtTheirDefaultLevels(t *testing.T) {
	for _, c := range []struct {
		d         database
		ask, want string
	}{
		{databases[1], "SHOW transaction_isolation", "read committed"},
		{databases[2], "SELECT @@tx_isolation", "REPEATABLE-READ"},
	} {
		t.Run(c.d.String(), func(t *testing.T) {
			var level string
			require.NoError(t, c.d.open(t).begin(t).QueryRow(c.ask).Scan(&level))
			assert.Equal(t, c.want, level)
		})
	}
}

// Guarantees 1 to 3 at other levels than the default. Where two race there, the database may refuse
// one of them; it must not admit a stale one.
func TestFencePassesTheSuiteAtOtherIsolationLevels(t *testing.T) {
	testscale.OnlyProof(t, "TestFencePassesTheSuite has each database's own level")
	postgres, mariadb := databases[1], databases[2]
	// The default from MariaDB 11.6.2 on.
	snapshot := mariadb
	snapshot.source = func(t testing.TB) string { return realdb.MariaDB(t) + "?innodb_snapshot_isolation=ON" }
	at := func(d database, l sql.IsolationLevel) database { d.level = l; return d }
	for name, d := range map[string]database{
		"PostgreSQL, repeatable read":      at(postgres, sql.LevelRepeatableRead),
		"PostgreSQL, serializable":         at(postgres, sql.LevelSerializable),
		"MariaDB, read committed":          at(mariadb, sql.LevelReadCommitted),
		"MariaDB, serializable":            at(mariadb, sql.LevelSerializable),
		"MariaDB, with snapshot isolation": snapshot,
	} {
		t.Run(name, func(t *testing.T) {
			for kind, open := range map[string]func(*desk) fencetest.Store{
				"Fence": func(desk *desk) fencetest.Store { return guarded{desk} },
				"Row":   func(desk *desk) fencetest.Store { return rows{desk} },
			} {
				t.Run(kind, func(t *testing.T) {
					s := suite(d, open)
					s.Restart = nil // a restart has no level
					s.Run(t)
				})
			}
		})
	}
}
