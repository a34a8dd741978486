package main

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/fencing/sqlfence"
	"github.com/pawl-locks/pawl/shard"
	"github.com/pawl-locks/pawl/test/pawltest"
)

func TestASaveGoesOnWhenAnotherProcessWaits(t *testing.T) {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "orders.db")+"?_txlock=immediate")
	require.NoError(t, err)
	defer func() { _ = db.Close() }()
	c := &consumer{db: db, fence: sqlfence.Fence{Dialect: sqlfence.SQLite}}
	require.NoError(t, c.create(t.Context()))
	ctx, stop := context.WithCancel(t.Context())
	next := 0
	err = shard.Run(ctx, pawltest.New(t).Client(t, pawl.Config{}), "orders", 1, shard.Options{},
		func(ctx context.Context, h *shard.Held) (err error) {
			defer stop()
			wanted, end := context.WithCancelCause(ctx)
			end(shard.ErrMoved)
			assert.NoError(t, c.save(wanted, h, 0, 7))
			next, err = c.load(ctx, h)
			return err
		})
	require.ErrorIs(t, err, context.Canceled)
	assert.Equal(t, 7, next)
}
