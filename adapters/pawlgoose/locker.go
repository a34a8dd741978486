// Package pawlgoose lets one of several processes at a time migrate a database with goose v3, by a
// lock on etcd. It is for databases that have no advisory locks, such as SQLite and ClickHouse, and for
// migrations of several databases under one lock. It is a separate module, so that only its users
// depend on goose.
//
//	provider, err := goose.NewProvider(goose.DialectSQLite3, db, migrations,
//		goose.WithLocker(pawlgoose.NewLocker(client, "migrations/app")))
//
// # What it guarantees
//
//  1. While one Provider migrates, and the lock is not lost, no other Provider with a Locker of
//     the same name does. The others wait for it, and then find nothing to do.
//  2. If the lock was lost, Unlock fails, and so does Provider.Up. Migrations may then have run at
//     the same time as another's, and somebody should check.
//
// # What it does not
//
// goose does not stop a migration when the lock is lost. Give Provider.Up a context that ends then,
// with Locker.Do. A database that has such locks, as PostgreSQL does, refuses a second migration: use
// goose's locker there.
package pawlgoose

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	gooselock "github.com/pressly/goose/v3/lock"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/lock"
)

// A Locker is a goose lock.Locker, and lock.SessionLocker, for any number of Providers. Each Lock
// that succeeds is ended by one Unlock. Until then other Providers of the Locker wait, even if the lock
// was lost meanwhile, because goose does not say whose an Unlock is.
type Locker struct {
	mutex *lock.Mutex
	in    chan struct{}   // holds one element from a Lock until its Unlock
	held  chan *lock.Held // holds what was acquired, from then until Unlock
}

var (
	_ gooselock.Locker        = (*Locker)(nil)
	_ gooselock.SessionLocker = (*Locker)(nil)
)

// NewLocker makes a Locker of the lock with this name; it does no I/O.
func NewLocker(s pawl.Sessions, name string) *Locker {
	return &Locker{mutex: lock.New(s, name, lock.Options{}), in: make(chan struct{}, 1), held: make(chan *lock.Held, 1)}
}

// Lock waits until the lock is held, or ctx ends. It does not use the database.
func (l *Locker) Lock(ctx context.Context, _ *sql.DB) error {
	select {
	case l.in <- struct{}{}:
	case <-ctx.Done():
		if cause := context.Cause(ctx); !errors.Is(cause, ctx.Err()) {
			return fmt.Errorf("goose: %w: %w", ctx.Err(), cause)
		}
		return fmt.Errorf("goose: %w", ctx.Err())
	}
	h, err := l.mutex.Acquire(ctx)
	if err != nil {
		<-l.in
		return err
	}
	l.held <- h
	return nil
}

// ErrNotLocked is the error of Unlock without a Lock.
var ErrNotLocked = errors.New("goose: not locked")

// Unlock releases the lock. If the lock was lost before, the error matches lock.ErrLost. It does
// not use the database.
func (l *Locker) Unlock(ctx context.Context, _ *sql.DB) error {
	select {
	case h := <-l.held:
		defer func() { <-l.in }()
		return h.Release(ctx)
	default:
		return ErrNotLocked
	}
}

// SessionLock is Lock.
func (l *Locker) SessionLock(ctx context.Context, _ *sql.Conn) error { return l.Lock(ctx, nil) }

// SessionUnlock is Unlock.
func (l *Locker) SessionUnlock(ctx context.Context, _ *sql.Conn) error { return l.Unlock(ctx, nil) }

// Do runs migrate under the lock, with a context that ends when the lock is lost. Make its Provider
// without a Locker.
//
//	err := locker.Do(ctx, func(ctx context.Context) error { _, err := provider.Up(ctx); return err })
func (l *Locker) Do(ctx context.Context, migrate func(ctx context.Context) error) error {
	return l.mutex.Do(ctx, func(ctx context.Context, _ *lock.Held) error { return migrate(ctx) })
}
