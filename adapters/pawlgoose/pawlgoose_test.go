package pawlgoose_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"path/filepath"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/pressly/goose/v3"
	gooselock "github.com/pressly/goose/v3/lock"
	"github.com/pressly/goose/v3/lock/locktesting"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	_ "modernc.org/sqlite"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/adapters/pawlgoose"
	"github.com/pawl-locks/pawl/internal/testkit/exampletb"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
	"github.com/pawl-locks/pawl/test/pawltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var migrations = fstest.MapFS{
	"00001_accounts.sql": {Data: []byte("-- +goose Up\nCREATE TABLE accounts (id INTEGER PRIMARY KEY);\n")},
	"00002_first.sql":    {Data: []byte("-- +goose Up\nINSERT INTO accounts VALUES (1);\n")},
	"00003_balance.sql":  {Data: []byte("-- +goose Up\nALTER TABLE accounts ADD COLUMN balance INTEGER NOT NULL DEFAULT 0;\n")},
}

func open(t testing.TB) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "app.db")+"?_txlock=immediate&_pragma=busy_timeout(10000)")
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, db.Close()) })
	return db
}

func provider(t testing.TB, db *sql.DB, opts ...goose.ProviderOption) *goose.Provider {
	t.Helper()
	p, err := goose.NewProvider(goose.DialectSQLite3, db, migrations, opts...)
	require.NoError(t, err)
	return p
}

// goose's own suite: of five Providers one migrates, as Locker and as SessionLocker.
func TestGoosesOwnTestOfProviders(t *testing.T) {
	etcd := pawltest.New(t)
	db := open(t)
	locktesting.TestProviderLocking(t, func(t *testing.T) *goose.Provider {
		return provider(t, db, goose.WithLocker(pawlgoose.NewLocker(etcd.Client(t, pawl.Config{}), "migrations")))
	})
	db = open(t)
	locktesting.TestProviderLocking(t, func(t *testing.T) *goose.Provider {
		return provider(t, db, goose.WithSessionLocker(pawlgoose.NewLocker(etcd.Client(t, pawl.Config{}), "migrations")))
	})
}

// goose's own suite, in a bubble: of five Lockers one has the lock.
func TestGoosesOwnTestOfLockers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		etcd := pawltest.New(t)
		locktesting.TestConcurrentLocking(t, nil, func(t *testing.T) gooselock.Locker {
			return leased{pawlgoose.NewLocker(etcd.Client(t, pawl.Config{}), "migrations")}
		}, time.Second)
	})
}

// leased unlocks under a context that has not ended, as goose itself does; the suite gives
// Unlock the one that bounds its Lock.
type leased struct{ *pawlgoose.Locker }

func (l leased) Unlock(ctx context.Context, db *sql.DB) error {
	return l.Locker.Unlock(context.WithoutCancel(ctx), db)
}

// Two Providers of one Locker exclude each other, too.
func TestOneLockerForSeveralProviders(t *testing.T) {
	etcd := pawltest.New(t)
	locker := pawlgoose.NewLocker(etcd.Client(t, pawl.Config{}), "migrations")
	db := open(t)
	locktesting.TestProviderLocking(t, func(t *testing.T) *goose.Provider { return provider(t, db, goose.WithLocker(locker)) })
	assert.ErrorIs(t, locker.Unlock(t.Context(), nil), pawlgoose.ErrNotLocked)
}

// A Provider whose lock was lost ends its own hold, and not that of the Locker's next Provider.
func TestALossDoesNotEndTheNextProvidersHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		etcd := pawltest.New(t)
		client := etcd.Client(t, pawl.Config{})
		locker := pawlgoose.NewLocker(client, "migrations")
		require.NoError(t, locker.Lock(t.Context(), nil))
		s, err := client.Session(t.Context())
		require.NoError(t, err)
		etcd.Revoke(s.ID())
		<-s.Done()

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, locker.Lock(ctx, nil), context.DeadlineExceeded, "the first has not unlocked")
		locked := make(chan error, 1)
		go func() { locked <- locker.Lock(t.Context(), nil) }()
		synctest.Wait()
		require.ErrorIs(t, locker.Unlock(t.Context(), nil), lock.ErrLost)
		require.NoError(t, <-locked)
		assert.NoError(t, locker.Unlock(t.Context(), nil), "held until now")
	})
}

// A lock that is lost while a migration runs: Up says so.
func TestUpSaysThatTheLockWasLost(t *testing.T) {
	etcd := pawltest.New(t)
	client := etcd.Client(t, pawl.Config{})
	lost := goose.NewGoMigration(4, &goose.GoFunc{RunTx: func(ctx context.Context, _ *sql.Tx) error {
		s, err := client.Session(ctx)
		if err != nil {
			return err
		}
		etcd.Revoke(s.ID())
		<-s.Done()
		return nil
	}}, nil)
	p := provider(t, open(t), goose.WithLocker(pawlgoose.NewLocker(client, "migrations")), goose.WithGoMigrations(lost))
	_, err := p.Up(t.Context())
	require.ErrorIs(t, err, lock.ErrLost)
	assert.ErrorIs(t, err, lease.ErrRevoked)
}

// With Do the migration's context ends at the loss, and nothing of it is committed.
func TestDoEndsTheMigrationAtTheLoss(t *testing.T) {
	etcd := pawltest.New(t)
	client := etcd.Client(t, pawl.Config{})
	lost := goose.NewGoMigration(4, &goose.GoFunc{RunTx: func(ctx context.Context, tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "DELETE FROM accounts"); err != nil {
			return err
		}
		s, err := client.Session(ctx)
		if err != nil {
			return err
		}
		etcd.Revoke(s.ID())
		<-ctx.Done()
		return ctx.Err()
	}}, nil)
	db := open(t)
	p := provider(t, db, goose.WithGoMigrations(lost))
	err := pawlgoose.NewLocker(client, "migrations").Do(t.Context(), func(ctx context.Context) error {
		_, err := p.Up(ctx)
		return err
	})
	require.ErrorIs(t, err, lock.ErrLost)
	var n int
	require.NoError(t, db.QueryRow("SELECT count(*) FROM accounts").Scan(&n))
	assert.Equal(t, 1, n)
}

func ExampleNewLocker() {
	t := exampletb.Begin()
	defer t.End()
	client := pawltest.New(t).Client(t, pawl.Config{}) // in a program, pawl.Dial
	db, err := sql.Open("sqlite", "file:app?mode=memory")
	if err != nil {
		log.Panic(err)
	}
	defer db.Close()

	provider, err := goose.NewProvider(goose.DialectSQLite3, db, migrations,
		goose.WithLocker(pawlgoose.NewLocker(client, "migrations/app")))
	if err != nil {
		log.Panic(err)
	}
	results, err := provider.Up(context.Background())
	fmt.Println(len(results), err)
	// Output: 3 <nil>
}
