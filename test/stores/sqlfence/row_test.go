package sqlfence_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/fencing/sqlfence"
)

func TestRowUpdatesSeveralColumnsInOneStatement(t *testing.T) {
	onEach(t, func(t *testing.T, d database) {
		desk := d.open(t)
		require.NoError(t, desk.put(t.Context(), desk.db, job, "old"))
		row := rows{desk}.row()
		set := "value = ?, resource = ?"
		if d.Dialect == sqlfence.Postgres {
			set = "value = $1, resource = $2"
		}
		require.NoError(t, row.Update(t.Context(), desk.db, desk.name(job), 57, set, "new", desk.name(job)))
		value, err := desk.get(t.Context(), desk.db, job)
		require.NoError(t, err)
		assert.Equal(t, "new", value)
	})
}

func TestRowThatIsNotThereIsDistinguishedFromAStaleToken(t *testing.T) {
	onEach(t, func(t *testing.T, d database) {
		desk := d.open(t)
		row := rows{desk}.row()
		assert.ErrorIs(t, row.Admit(t.Context(), desk.db, desk.name(job), 57), sqlfence.ErrNoRow)
		require.NoError(t, desk.put(t.Context(), desk.db, job, "value"))
		require.NoError(t, row.Admit(t.Context(), desk.db, desk.name(job), 57))
		var stale *fencing.StaleError
		require.ErrorAs(t, row.Admit(t.Context(), desk.db, desk.name(job), 56), &stale)
		assert.Equal(t, fencing.StaleError{Resource: job, Got: 56, Highest: 57}, *stale)
	})
}

func TestRowInATransactionThatBeganBeforeTheRefusingOneNamesItsToken(t *testing.T) {
	for _, d := range databases[1:] { // SQLite has one writer at a time
		t.Run(d.Dialect.String(), func(t *testing.T) {
			desk := d.open(t)
			require.NoError(t, desk.put(t.Context(), desk.db, job, "value"))
			row := rows{desk}.row()
			tx := desk.begin(t)
			_, err := desk.get(t.Context(), tx, job) // what it sees is fixed, in MySQL
			require.NoError(t, err)
			require.NoError(t, row.Admit(t.Context(), desk.db, desk.name(job), 57))
			var stale *fencing.StaleError
			require.ErrorAs(t, row.Admit(t.Context(), tx, desk.name(job), 56), &stale)
			assert.Equal(t, fencing.StaleError{Resource: job, Got: 56, Highest: 57}, *stale)
		})
	}
}

func TestRowTakesNumbersAsKeys(t *testing.T) {
	onEach(t, func(t *testing.T, d database) {
		desk := d.open(t)
		table := desk.values + "_n"
		desk.exec(t, "CREATE TABLE "+table+" (id BIGINT NOT NULL PRIMARY KEY, fence BIGINT NOT NULL DEFAULT 0)")
		desk.exec(t, "INSERT INTO "+table+" (id) VALUES (7)")
		row := sqlfence.Row{Dialect: d.Dialect, Table: table, Key: "id", Token: "fence"}
		require.NoError(t, row.Admit(t.Context(), desk.db, 7, 57))
		assert.EqualError(t, row.Admit(t.Context(), desk.db, 7, 41), `fencing: stale token 41 for "7": 57 was seen`)
	})
}

func TestRowRefusesBadInput(t *testing.T) {
	desk := databases[0].open(t)
	good := rows{desk}.row()
	assert.ErrorIs(t, good.Admit(t.Context(), desk.db, job, 0), fencing.ErrNoToken)
	assert.ErrorIs(t, good.Admit(t.Context(), desk.db, "", 57), fencing.ErrNoResource)
	for _, none := range []sqlfence.Querier{nil, (*sql.DB)(nil), (*sql.Tx)(nil), (*sql.Conn)(nil)} {
		assert.ErrorContains(t, good.Admit(t.Context(), none, job, 57), "nil database")
	}
	var none context.Context
	assert.ErrorContains(t, good.Admit(none, desk.db, job, 57), "nil context")
	for _, bad := range []sqlfence.Row{
		{Dialect: sqlfence.SQLite, Key: good.Key, Token: good.Token},
		{Dialect: sqlfence.SQLite, Table: good.Table, Token: good.Token},
		{Dialect: sqlfence.SQLite, Table: good.Table, Key: good.Key},
		{Dialect: sqlfence.SQLite, Table: good.Table, Key: "a.b", Token: good.Token},
	} {
		assert.ErrorIs(t, bad.Admit(t.Context(), desk.db, job, 57), sqlfence.ErrBadName)
	}
	assert.ErrorContains(t, sqlfence.Row{Table: good.Table, Key: good.Key, Token: good.Token}.Admit(t.Context(), desk.db, job, 57), "no such dialect")
}

// SQLite takes a name in double quotes for a string where there is no such column.
func TestRowWhoseColumnIsMissingWritesNothingAndSaysSo(t *testing.T) {
	onEach(t, func(t *testing.T, d database) {
		desk := d.open(t)
		require.NoError(t, desk.put(t.Context(), desk.db, job, "old"))
		set := "value = ?"
		if d.Dialect == sqlfence.Postgres {
			set = "value = $1"
		}
		for _, missing := range []func(r *sqlfence.Row){
			func(r *sqlfence.Row) { r.Key = "absent" },
			func(r *sqlfence.Row) { r.Token = "absent" },
		} {
			row := rows{desk}.row()
			missing(&row)
			for _, key := range []string{job, "absent"} {
				assert.ErrorContains(t, row.Admit(t.Context(), desk.db, desk.name(key), 57), "column")
				assert.ErrorContains(t, row.Update(t.Context(), desk.db, desk.name(key), 57, set, "new"), "column")
			}
		}
		value, err := desk.get(t.Context(), desk.db, job)
		require.NoError(t, err)
		assert.Equal(t, "old", value)
	})
}

func TestRowRefusesAKeyThatIsNotUnique(t *testing.T) {
	desk := databases[0].open(t)
	require.NoError(t, desk.put(t.Context(), desk.db, "a", "same"))
	require.NoError(t, desk.put(t.Context(), desk.db, "b", "same"))
	row := sqlfence.Row{Dialect: sqlfence.SQLite, Table: desk.values, Key: "value", Token: "token"}
	assert.ErrorContains(t, row.Admit(t.Context(), desk.db, "same", 57), "must be unique")
}

// afterExec does something after the statement that updates.
type afterExec struct {
	sqlfence.Querier
	then func()
}

func (a afterExec) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	res, err := a.Querier.ExecContext(ctx, query, args...)
	a.then()
	return res, err
}

func TestRowInsertedAfterTheUpdateWithItsTokenIsNotTakenForUpdated(t *testing.T) {
	onEach(t, func(t *testing.T, d database) {
		desk := d.open(t)
		q := afterExec{desk.db, func() {
			desk.exec(t, desk.sql("INSERT INTO "+desk.values+" (resource, value, token) VALUES (%s, %s, 57)"), desk.name(job), "another's")
		}}
		set := desk.sql("value = %[1]s")
		assert.ErrorIs(t, rows{desk}.row().Update(t.Context(), q, desk.name(job), 57, set, "ours"), sqlfence.ErrNoRow)
	})
}

func TestRowThatIsAlreadyAsItIsToBecomeIsUpdated(t *testing.T) {
	onEach(t, func(t *testing.T, d database) {
		desk := d.open(t)
		require.NoError(t, desk.put(t.Context(), desk.db, job, "value"))
		row := rows{desk}.row()
		for range 3 {
			require.NoError(t, row.Update(t.Context(), desk.db, desk.name(job), 57, desk.sql("value = %[1]s"), "same"))
		}
	})
}
