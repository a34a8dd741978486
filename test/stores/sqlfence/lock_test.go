package sqlfence_test

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/fencing/sqlfence"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
	"github.com/pawl-locks/pawl/test/pawltest"
)

// bookUnderLock is what most users write.
func bookUnderLock(ctx context.Context, m *lock.Mutex, db *sql.DB, fence sqlfence.Fence, amount int) error {
	return m.Do(ctx, func(ctx context.Context, h *lock.Held) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }()
		if err := fence.Admit(ctx, tx, h.Name(), h.Token()); err != nil {
			return err
		}
		var balance int
		if err := tx.QueryRowContext(ctx, "SELECT balance FROM accounts WHERE id = 7").Scan(&balance); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "UPDATE accounts SET balance = ? WHERE id = 7", balance+amount); err != nil {
			return err
		}
		return tx.Commit()
	})
}

func TestTokensOfRealLocksAreAdmittedInTurn(t *testing.T) {
	desk := databases[0].open(t)
	desk.exec(t, "CREATE TABLE accounts (id INTEGER PRIMARY KEY, balance INTEGER NOT NULL)")
	desk.exec(t, "INSERT INTO accounts VALUES (7, 100)")
	cluster := pawltest.New(t)
	var wg sync.WaitGroup
	for range 4 {
		s, err := cluster.Client(t, pawl.Config{}).NewSession(t.Context(), lease.Options{})
		require.NoError(t, err)
		wg.Go(func() { // ends after its bookings
			for range 3 {
				assert.NoError(t, bookUnderLock(t.Context(), lock.New(s, "account/7", lock.Options{}), desk.db, desk.fence, 1))
			}
		})
	}
	wg.Wait()
	var balance int
	require.NoError(t, desk.db.QueryRow("SELECT balance FROM accounts WHERE id = 7").Scan(&balance))
	assert.Equal(t, 112, balance)
}

func TestHolderWhoseLeaseWasRevokedIsRefusedByTheStore(t *testing.T) {
	desk := databases[0].open(t)
	cluster := pawltest.New(t)
	session := func() *pawl.Session {
		s, err := cluster.Client(t, pawl.Config{}).NewSession(t.Context(), lease.Options{})
		require.NoError(t, err)
		return s
	}
	first, second := session(), session()
	held, err := lock.New(first, job, lock.Options{}).Acquire(t.Context())
	require.NoError(t, err)
	desk.admits(t, held.Token())

	cluster.Revoke(first.ID())
	next, err := lock.New(second, job, lock.Options{}).Acquire(t.Context())
	require.NoError(t, err)
	desk.admits(t, next.Token())

	tx := desk.begin(t)
	var stale *fencing.StaleError
	require.True(t, errors.As(desk.fence.Admit(t.Context(), tx, job, held.Token()), &stale))
	assert.Equal(t, fencing.StaleError{Resource: job, Got: held.Token(), Highest: next.Token()}, *stale)
}
