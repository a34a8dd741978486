package pgxfence_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/fencing/pgxfence"
)

// withdraw books in one transaction of pgx: admitted first, then read, then written.
func withdraw(ctx context.Context, pool *pgxpool.Pool, fence pgxfence.Fence, account string, t fencing.Token, amount int) error {
	tx, err := pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(ctx) }() // does nothing once committed
	if err := fence.Admit(ctx, tx, account, t); err != nil {
		return err // a *fencing.StaleError: the lock is another's by now
	}
	var balance int
	if err := tx.QueryRow(ctx, "SELECT balance FROM accounts WHERE id = $1", account).Scan(&balance); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, "UPDATE accounts SET balance = $2 WHERE id = $1", account, balance-amount); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

// The program that the how-to prints refuses a holder that comes late, and writes nothing
// of it.
func TestTheProgramOfTheGuideRefusesALateHolder(t *testing.T) {
	d := open(t)
	d.exec(t, "CREATE TABLE accounts (id text PRIMARY KEY, balance int NOT NULL)")
	d.exec(t, "INSERT INTO accounts VALUES ('7', 100)")
	require.NoError(t, withdraw(t.Context(), d.Pool, d.fence, "7", 57, 30))
	var stale *fencing.StaleError
	require.ErrorAs(t, withdraw(t.Context(), d.Pool, d.fence, "7", 41, 50), &stale)
	assert.EqualValues(t, 57, stale.Highest)
	var balance int
	require.NoError(t, d.QueryRow(t.Context(), "SELECT balance FROM accounts WHERE id = '7'").Scan(&balance))
	assert.Equal(t, 70, balance)
}
