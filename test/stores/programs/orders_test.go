// Package programs has whole programs that the how-tos print, on a database.
package programs

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/fencing/sqlfence"
	"github.com/pawl-locks/pawl/lock"
	"github.com/pawl-locks/pawl/test/pawltest"
)

// A pool works on orders, one worker an order at a time, on any number of machines.
type pool struct {
	client *pawl.Client
	db     *sql.DB
	fence  sqlfence.Fence
}

// process takes the order's lock, and does nothing where another has it.
func (p *pool) process(ctx context.Context, order int) error {
	h, err := lock.New(p.client, fmt.Sprintf("orders/%d", order), lock.Options{}).TryAcquire(ctx)
	if errors.Is(err, lock.ErrBusy) {
		return nil
	}
	if err != nil {
		return err
	}
	return h.Do(ctx, func(ctx context.Context) error {
		return p.ship(ctx, h.Name(), order, h.Token())
	})
}

// ship is the work: admitted first, then read, then written, in one transaction.
func (p *pool) ship(ctx context.Context, resource string, order int, t fencing.Token) error {
	tx, err := p.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing once committed
	if err := p.fence.Admit(ctx, tx, resource, t); err != nil {
		return err // a *fencing.StaleError: the lock is another's by now
	}
	var state string
	if err := tx.QueryRowContext(ctx, "SELECT state FROM orders WHERE id = ?", order).Scan(&state); err != nil {
		return err
	}
	if state != "paid" {
		return nil // shipped already
	}
	if _, err := tx.ExecContext(ctx, "UPDATE orders SET state = 'shipped', times = times + 1 WHERE id = ?", order); err != nil {
		return err
	}
	return tx.Commit()
}

func newPools(t *testing.T, n int) []*pool {
	t.Helper()
	etcd := pawltest.New(t)
	path := filepath.Join(t.TempDir(), "orders.db")
	var pools []*pool
	for range n {
		db, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate&_pragma=busy_timeout(10000)")
		require.NoError(t, err)
		t.Cleanup(func() { _ = db.Close() })
		p := &pool{client: etcd.Client(t, pawl.Config{}), db: db, fence: sqlfence.Fence{Dialect: sqlfence.SQLite}}
		require.NoError(t, p.fence.Create(t.Context(), db))
		pools = append(pools, p)
	}
	_, err := pools[0].db.Exec("CREATE TABLE orders (id INTEGER PRIMARY KEY, state TEXT NOT NULL, times INTEGER NOT NULL DEFAULT 0)")
	require.NoError(t, err)
	return pools
}

func TestEachOrderIsShippedOnce(t *testing.T) {
	pools := newPools(t, 3)
	const orders = 20
	for i := range orders {
		_, err := pools[0].db.Exec("INSERT INTO orders (id, state) VALUES (?, 'paid')", i)
		require.NoError(t, err)
	}
	var all sync.WaitGroup
	for _, p := range pools {
		all.Go(func() { // ends with the last order
			for i := range orders {
				assert.NoError(t, p.process(t.Context(), i))
			}
		})
	}
	all.Wait()
	var shipped, times int
	require.NoError(t, pools[0].db.QueryRow("SELECT count(*), sum(times) FROM orders WHERE state = 'shipped'").Scan(&shipped, &times))
	assert.Equal(t, []int{orders, orders}, []int{shipped, times})
}

func TestALateWorkerIsRefused(t *testing.T) {
	p := newPools(t, 1)[0]
	_, err := p.db.Exec("INSERT INTO orders (id, state) VALUES (7, 'paid')")
	require.NoError(t, err)
	m := lock.New(p.client, "orders/7", lock.Options{})
	first, err := m.Acquire(t.Context())
	require.NoError(t, err)
	require.NoError(t, first.Release(t.Context()))
	second, err := m.Acquire(t.Context())
	require.NoError(t, err)
	require.NoError(t, p.ship(t.Context(), "orders/7", 7, second.Token()))
	var stale *fencing.StaleError
	assert.ErrorAs(t, p.ship(t.Context(), "orders/7", 7, first.Token()), &stale)
}
