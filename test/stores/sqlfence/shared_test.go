package sqlfence_test

import (
	"database/sql"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/fencing/sqlfence"
)

func (d *desk) register(t *testing.T, token fencing.Token) {
	t.Helper()
	require.NoError(t, d.fence.Register(t.Context(), d.db, job, token))
}

func (*desk) refuses(t *testing.T, err error, got, highest fencing.Token) {
	t.Helper()
	var stale *fencing.StaleError
	require.ErrorAs(t, err, &stale)
	assert.Equal(t, fencing.StaleError{Resource: job, Got: got, Highest: highest}, *stale)
}

func TestReadersAreAdmittedTogetherAndKeepWritersOutUntilTheyAreDone(t *testing.T) {
	onEach(t, func(t *testing.T, d database) {
		if d.Dialect == sqlfence.SQLite {
			d.source = func(t testing.TB) string { return deferred(sqliteSource(t)) } // else a reader takes the write lock
		}
		desk := d.open(t)
		desk.admits(t, 4)
		desk.register(t, 7)
		desk.register(t, 5)
		first, second := desk.begin(t), desk.begin(t)
		require.NoError(t, desk.fence.AdmitShared(t.Context(), first, job, 7))
		require.NoError(t, desk.fence.AdmitShared(t.Context(), second, job, 5), "it waits for no reader")
		if d.Dialect != sqlfence.SQLite { // there a reader sees one state throughout, and lets a writer go on
			desk.blocked(t, 8)
		}
		require.NoError(t, first.Commit())
		require.NoError(t, second.Commit())
		tx := desk.begin(t)
		desk.refuses(t, desk.fence.Admit(t.Context(), tx, job, 6), 6, 7)
		require.NoError(t, tx.Rollback())
		desk.admits(t, 8)
		desk.refuses(t, desk.fence.Register(t.Context(), desk.db, job, 7), 7, 8)
		tx = desk.begin(t)
		desk.refuses(t, desk.fence.AdmitShared(t.Context(), tx, job, 7), 7, 8)
	})
}

func TestReaderWaitsForTheWriterBeforeItAndSeesItsWrite(t *testing.T) {
	for _, d := range databases[1:] { // SQLite has no row to wait for
		t.Run(d.Dialect.String(), func(t *testing.T) {
			t.Parallel()
			desk := d.open(t)
			desk.admits(t, 1)
			desk.register(t, 57)
			require.NoError(t, desk.put(t.Context(), desk.db, job, "old"))
			writer := desk.begin(t)
			require.NoError(t, desk.fence.Admit(t.Context(), writer, job, 58))
			require.NoError(t, desk.put(t.Context(), writer, job, "new"))
			read := *desk
			desk.waits(t, func(db *sql.DB) error {
				read.db = db
				_, err := read.readAs(t.Context(), job, func(tx *sql.Tx) error { return desk.fence.AdmitShared(t.Context(), tx, job, 57) })
				return err
			})
			require.NoError(t, writer.Commit())
			_, err := desk.readAs(t.Context(), job, func(tx *sql.Tx) error { return desk.fence.AdmitShared(t.Context(), tx, job, 57) })
			desk.refuses(t, err, 57, 58)
			desk.register(t, 59)
			value, err := desk.readAs(t.Context(), job, func(tx *sql.Tx) error { return desk.fence.AdmitShared(t.Context(), tx, job, 59) })
			require.NoError(t, err)
			assert.Equal(t, "new", value)
		})
	}
}

func TestSharedTokenThatWasNotRegisteredIsRefused(t *testing.T) {
	onEach(t, func(t *testing.T, d database) {
		desk := d.open(t)
		admit := func(token fencing.Token) error {
			_, err := desk.readAs(t.Context(), job, func(tx *sql.Tx) error { return desk.fence.AdmitShared(t.Context(), tx, job, token) })
			return err
		}
		assert.ErrorIs(t, admit(5), sqlfence.ErrNotRegistered, "there is no such resource")
		desk.register(t, 5)
		require.NoError(t, admit(5))
		assert.ErrorIs(t, admit(6), sqlfence.ErrNotRegistered)
		assert.ErrorIs(t, admit(0), fencing.ErrNoToken)
		assert.ErrorIs(t, desk.fence.Register(t.Context(), desk.db, job, 0), fencing.ErrNoToken)
		assert.ErrorContains(t, desk.fence.Register(t.Context(), nil, job, 5), "sqlfence: register \"jobs/42\": nil database")
		assert.ErrorIs(t, sqlfence.Fence{Dialect: d.Dialect, Table: "nowhere"}.Register(t.Context(), desk.db, job, 5), sqlfence.ErrNoTable)
	})
}

func TestRowWithoutItsSecondColumnRefusesSharedTokens(t *testing.T) {
	desk := databases[0].open(t)
	row := rows{desk}.row()
	row.Exclusive = ""
	assert.ErrorContains(t, row.Register(t.Context(), desk.db, job, 57), "Row.Exclusive")
	assert.ErrorContains(t, row.AdmitShared(t.Context(), desk.begin(t), job, 57), "Row.Exclusive")
	row.Exclusive = "a b"
	assert.ErrorIs(t, row.Admit(t.Context(), desk.db, job, 57), sqlfence.ErrBadName)
}

// old is the table before shared tokens, with one row.
func (d *desk) old(t *testing.T) sqlfence.Fence {
	fence := sqlfence.Fence{Dialect: d.Dialect, Table: d.fence.Table + "_old"}
	create := map[sqlfence.Dialect]string{
		sqlfence.Postgres: " (resource bytea PRIMARY KEY, token bigint NOT NULL CHECK (token > 0))",
		sqlfence.MySQL:    " (resource VARBINARY(1024) NOT NULL PRIMARY KEY, token BIGINT NOT NULL) ENGINE=InnoDB",
		sqlfence.SQLite:   " (resource TEXT NOT NULL PRIMARY KEY, token INTEGER NOT NULL CHECK (token > 0)) WITHOUT ROWID",
	}
	d.exec(t, "CREATE TABLE "+fence.Table+create[d.Dialect])
	d.exec(t, d.sql("INSERT INTO "+fence.Table+" (resource, token) VALUES (%s, %s)"), d.name(job), 57)
	return fence
}

func TestCreateMigratesTheTableFromBeforeSharedTokens(t *testing.T) {
	onEach(t, func(t *testing.T, d database) {
		desk := d.open(t)
		desk.fence = desk.old(t)
		var wg sync.WaitGroup
		for range 6 {
			wg.Go(func() { assert.NoError(t, desk.fence.Create(t.Context(), desk.db)) }) // ends with the statements
		}
		wg.Wait()
		require.NoError(t, desk.fence.Create(t.Context(), desk.db))
		desk.refuses(t, desk.fence.Register(t.Context(), desk.db, job, 57), 57, 57)
		desk.refuses(t, desk.fence.Register(t.Context(), desk.db, job, 56), 56, 57)
		tx := desk.begin(t)
		desk.refuses(t, desk.fence.Admit(t.Context(), tx, job, 56), 56, 57)
		require.NoError(t, tx.Rollback())
		desk.admits(t, 57)
		desk.register(t, 58)
		tx = desk.begin(t)
		_, err := tx.Exec(desk.sql("INSERT INTO "+desk.fence.Table+" (resource, token) VALUES (%s, %s)"), desk.name("new"), 1)
		assert.Error(t, err, "the version before must not move one register alone")
	})
}

func TestCreateEndsAMigrationWhoseProcessDiedInMySQL(t *testing.T) {
	desk := databases[2].open(t)
	desk.fence = desk.old(t)
	desk.exec(t, "ALTER TABLE "+desk.fence.Table+" CHANGE token highest BIGINT NOT NULL, ADD COLUMN exclusive BIGINT NOT NULL DEFAULT 9223372036854775807")
	var stale *fencing.StaleError
	require.ErrorAs(t, desk.fence.Register(t.Context(), desk.db, job, 58), &stale, "until then every shared token is refused")
	require.NoError(t, desk.fence.Create(t.Context(), desk.db))
	var highest, exclusive int64
	require.NoError(t, desk.db.QueryRow("SELECT highest, exclusive FROM "+desk.fence.Table).Scan(&highest, &exclusive))
	assert.Equal(t, "57 57", fmt.Sprint(highest, " ", exclusive))
	desk.register(t, 58)
}
