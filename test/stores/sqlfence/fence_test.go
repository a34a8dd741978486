package sqlfence_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/fencing/sqlfence"
	"github.com/pawl-locks/pawl/internal/testkit/testscale"
)

const job = "jobs/42"

func TestCreateCanBeRunTwiceAndByManyAtOnce(t *testing.T) {
	onEach(t, func(t *testing.T, d database) {
		desk := d.open(t)
		require.NoError(t, desk.fence.Create(t.Context(), desk.db))
		fresh := sqlfence.Fence{Dialect: d.Dialect, Table: desk.fence.Table + "_new"}
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() { assert.NoError(t, fresh.Create(t.Context(), desk.db)) }) // ends with the statement
		}
		wg.Wait()
		tx := desk.begin(t)
		require.NoError(t, fresh.Admit(t.Context(), tx, job, 1))
		require.NoError(t, tx.Commit())
	})
}

func TestCreateRefusesATableOfAnotherShape(t *testing.T) {
	onEach(t, func(t *testing.T, d database) {
		desk := d.open(t)
		assert.ErrorContains(t, sqlfence.Fence{Dialect: d.Dialect, Table: desk.values + "x"}.Create(canceled(t), desk.db), "sqlfence: create: ")
		desk.exec(t, "CREATE TABLE "+desk.fence.Table+"_other (a int)")
		assert.ErrorContains(t, sqlfence.Fence{Dialect: d.Dialect, Table: desk.fence.Table + "_other"}.Create(t.Context(), desk.db), "sqlfence: create: ")
	})
}

func canceled(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

func TestDefaultTableIsPawlFence(t *testing.T) {
	desk := databases[0].open(t)
	fence := sqlfence.Fence{Dialect: sqlfence.SQLite}
	require.NoError(t, fence.Create(t.Context(), desk.db))
	tx := desk.begin(t)
	require.NoError(t, fence.Admit(t.Context(), tx, job, 57))
	var highest, exclusive int64
	require.NoError(t, tx.QueryRow("SELECT highest, exclusive FROM pawl_fence WHERE resource = ?", job).Scan(&highest, &exclusive))
	assert.EqualValues(t, 57, highest)
	assert.EqualValues(t, 57, exclusive)
}

func TestAdmitRefusesBadInputAndWritesNothing(t *testing.T) {
	onEach(t, func(t *testing.T, d database) {
		desk := d.open(t)
		tx := desk.begin(t)
		admit := func(f sqlfence.Fence, tx *sql.Tx, resource string, token fencing.Token) error {
			err := f.Admit(t.Context(), tx, resource, token)
			require.Error(t, err)
			assert.Truef(t, strings.HasPrefix(err.Error(), "sqlfence: admit "), "%v", err)
			return err
		}
		assert.ErrorIs(t, admit(desk.fence, tx, job, 0), fencing.ErrNoToken)
		assert.ErrorIs(t, admit(desk.fence, tx, job, -5), fencing.ErrNoToken)
		assert.ErrorIs(t, admit(desk.fence, tx, "", 57), fencing.ErrNoResource)
		assert.ErrorIs(t, admit(desk.fence, tx, strings.Repeat("x", 1025), 57), fencing.ErrNoResource)
		assert.ErrorContains(t, admit(desk.fence, nil, job, 57), "nil transaction")
		assert.ErrorContains(t, admit(sqlfence.Fence{}, tx, job, 57), "no such dialect: Dialect(0)")
		assert.ErrorContains(t, admit(sqlfence.Fence{Dialect: 4}, tx, job, 57), "no such dialect")
		assert.ErrorIs(t, admit(sqlfence.Fence{Dialect: d.Dialect, Table: "a; DROP TABLE b"}, tx, job, 57), sqlfence.ErrBadName)
		require.NoError(t, tx.Commit())

		assert.ErrorContains(t, desk.fence.Create(t.Context(), nil), "sqlfence: create: nil database")
		var none context.Context
		assert.ErrorContains(t, desk.fence.Create(none, desk.db), "sqlfence: create: nil context")
		assert.ErrorContains(t, desk.fence.Admit(none, desk.begin(t), job, 57), "nil context")
		assert.ErrorContains(t, sqlfence.Fence{}.Create(t.Context(), desk.db), "no such dialect")
		var n int
		require.NoError(t, desk.db.QueryRow("SELECT count(*) FROM "+desk.fence.Table).Scan(&n))
		assert.Zero(t, n)
	})
}

func TestMissingTableIsNamed(t *testing.T) {
	onEach(t, func(t *testing.T, d database) {
		desk := d.open(t)
		err := sqlfence.Fence{Dialect: d.Dialect, Table: "nowhere"}.Admit(t.Context(), desk.begin(t), job, 57)
		require.ErrorIs(t, err, sqlfence.ErrNoTable)
		assert.ErrorContains(t, err, "nowhere")
		err = sqlfence.Row{Dialect: d.Dialect, Table: "nowhere", Key: "id", Token: "fence"}.Admit(t.Context(), desk.db, 1, 57)
		assert.ErrorIs(t, err, sqlfence.ErrNoTable)
	})
}

func TestEndedTransactionAdmitsNothing(t *testing.T) {
	onEach(t, func(t *testing.T, d database) {
		desk := d.open(t)
		committed, rolledBack := desk.begin(t), (*sql.Tx)(nil)
		require.NoError(t, committed.Commit())
		rolledBack = desk.begin(t)
		require.NoError(t, desk.fence.Admit(t.Context(), rolledBack, job, 57))
		require.NoError(t, rolledBack.Rollback())
		assert.ErrorIs(t, desk.fence.Admit(t.Context(), committed, job, 57), sql.ErrTxDone)
		assert.ErrorIs(t, desk.fence.Admit(t.Context(), rolledBack, job, 57), sql.ErrTxDone)
		desk.admits(t, 1)
	})
}

// admits commits a transaction under token, which must be admitted.
func (d *desk) admits(t *testing.T, token fencing.Token) {
	t.Helper()
	tx := d.begin(t)
	require.NoError(t, d.fence.Admit(t.Context(), tx, job, token))
	require.NoError(t, tx.Commit())
}

func TestTransactionWhoseContextEndsLeavesNoTrace(t *testing.T) {
	onEach(t, func(t *testing.T, d database) {
		desk := d.open(t)
		ctx, cancel := context.WithCancel(t.Context())
		tx, err := desk.db.BeginTx(ctx, nil)
		require.NoError(t, err)
		require.NoError(t, desk.fence.Admit(ctx, tx, job, 57))
		cancel()
		require.Eventually(t, func() bool { return errors.Is(tx.Commit(), sql.ErrTxDone) }, testscale.Hang, time.Millisecond)
		desk.admits(t, 41)
	})
}

// blocked says that a transaction under token waits while another is open: that it is neither
// admitted nor refused.
func (d *desk) blocked(t *testing.T, token fencing.Token) {
	t.Helper()
	d.waits(t, func(db *sql.DB) error {
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }()
		return d.fence.Admit(t.Context(), tx, job, token)
	})
}

// waits says that f waits for a lock, on a connection that says so without waiting.
func (d *desk) waits(t *testing.T, f func(db *sql.DB) error) {
	t.Helper()
	db, err := sql.Open(d.driver, d.impatient(d.path))
	require.NoError(t, err)
	defer db.Close()
	require.ErrorContains(t, f(db), d.denied)
}

func TestNobodyElseIsAdmittedWhileATransactionIsOpen(t *testing.T) {
	onEach(t, func(t *testing.T, d database) {
		desk := d.open(t)
		first := desk.begin(t) // also where the resource is new, and there is no row to lock yet
		require.NoError(t, desk.fence.Admit(t.Context(), first, job, 50))
		desk.blocked(t, 57)
		desk.blocked(t, 41)
		require.NoError(t, first.Rollback())
		desk.admits(t, 41)

		second := desk.begin(t)
		require.NoError(t, desk.fence.Admit(t.Context(), second, job, 41)) // an equal one, which changes nothing
		desk.blocked(t, 57)
		desk.blocked(t, 41)
		require.NoError(t, second.Commit())
		desk.admits(t, 57)
	})
}

func TestRefusalDoesNotOutliveItsTransaction(t *testing.T) {
	onEach(t, func(t *testing.T, d database) {
		desk := d.open(t)
		desk.admits(t, 57)
		tx := desk.begin(t)
		var stale *fencing.StaleError
		require.ErrorAs(t, desk.fence.Admit(t.Context(), tx, job, 41), &stale)
		assert.Equal(t, fencing.StaleError{Resource: job, Got: 41, Highest: 57}, *stale)
		require.NoError(t, tx.Rollback())
		desk.admits(t, 57)
	})
}

func TestHolderThatWaitedReadsWhatTheOneBeforeItCommitted(t *testing.T) {
	onEach(t, func(t *testing.T, d database) {
		desk := d.open(t)
		desk.admits(t, 1)
		require.NoError(t, desk.put(t.Context(), desk.db, job, "old"))
		first := desk.begin(t)
		require.NoError(t, desk.fence.Admit(t.Context(), first, job, 41))

		got := make(chan string)
		go func() { // ends when first is committed, and is waited for below
			defer close(got)
			tx, err := desk.db.BeginTx(t.Context(), nil) // begun before the commit
			if !assert.NoError(t, err) {
				return
			}
			defer func() { _ = tx.Rollback() }()
			if !assert.NoError(t, desk.fence.Admit(t.Context(), tx, job, 57)) {
				return
			}
			value, err := desk.get(t.Context(), tx, job)
			assert.NoError(t, err)
			got <- value
		}()
		desk.someoneWaits(t)
		require.NoError(t, desk.put(t.Context(), first, job, "new"))
		require.NoError(t, first.Commit())
		assert.Equal(t, "new", <-got)
		<-got
	})
}

// someoneWaits waits until a transaction waits for another. SQLite does not say.
func (d *desk) someoneWaits(t *testing.T) {
	t.Helper()
	ask := map[sqlfence.Dialect]string{
		sqlfence.Postgres: "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'",
		sqlfence.MySQL:    "SELECT variable_value FROM information_schema.global_status WHERE variable_name = 'innodb_row_lock_current_waits'",
	}[d.Dialect]
	if ask == "" {
		return
	}
	require.Eventually(t, func() bool {
		var n int
		return d.db.QueryRow(ask).Scan(&n) == nil && n > 0
	}, testscale.Hang, time.Millisecond)
}

func TestDeferredSQLiteTransactionThatAdmitsFirstWaitsToo(t *testing.T) {
	d := databases[0]
	d.source = func(t testing.TB) string { return deferred(sqliteSource(t)) }
	desk := d.open(t)
	first := desk.begin(t)
	require.NoError(t, desk.fence.Admit(t.Context(), first, job, 41))
	admitted := make(chan error)
	go func() { // ends when first is committed, and is waited for below
		tx, err := desk.db.BeginTx(t.Context(), nil)
		if err == nil {
			err = errors.Join(desk.fence.Admit(t.Context(), tx, job, 57), tx.Commit())
		}
		admitted <- err
	}()
	desk.blocked(t, 58)
	require.NoError(t, first.Commit())
	require.NoError(t, <-admitted)
	tx := desk.begin(t)
	var stale *fencing.StaleError
	require.ErrorAs(t, desk.fence.Admit(t.Context(), tx, job, 41), &stale)
}

func TestTableIsQuotedAndMayHaveASchema(t *testing.T) {
	schemas := map[sqlfence.Dialect]string{sqlfence.SQLite: "main", sqlfence.Postgres: "public", sqlfence.MySQL: "test"}
	onEach(t, func(t *testing.T, d database) {
		desk := d.open(t)
		fence := sqlfence.Fence{Dialect: d.Dialect, Table: schemas[d.Dialect] + ".Order"} // a reserved word
		require.NoError(t, fence.Create(t.Context(), desk.db))
		tx := desk.begin(t)
		require.NoError(t, fence.Admit(t.Context(), tx, job, 57))
		require.NoError(t, tx.Commit())
	})
}
