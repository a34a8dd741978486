package kv

import (
	"errors"
	"fmt"

	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/hooks"
)

var (
	// ErrFenced says that a guard failed: its lock is no longer held, and nothing was applied.
	ErrFenced = errors.New("fenced: the lock is no longer held")

	// ErrUnknown says that the transaction may have been applied, or may still be.
	ErrUnknown = cluster.ErrUnknown
)

// Guard is the condition "this lock is still held". The Guard method of a Held or a Term returns it,
// and always the same one. Guards can be compared with ==. The zero Guard belongs to no lock, and is
// refused.
type Guard struct {
	key    string
	token  fencing.Token
	holder hooks.Holder
}

// Key returns the lock's whole key in etcd, with Config.Namespace. For the zero Guard it is empty, which
// etcd refuses in a comparison.
//
// Key and CreateRevision guard a transaction that is sent through another etcd client: it compares that
// the create revision of this key equals CreateRevision, and then it applies only while the lock is held.
// Package kv/clientv3guard, a separate module, makes that comparison for clientv3. A Client of this package
// does more: it sends nothing if this process knows that the lock is lost, and it tells a guard that failed
// from a condition that did.
func (g Guard) Key() string { return g.key }

// CreateRevision returns the create revision that Key has while the lock is held. It is also the lock's
// fencing token. It is 0 for the zero Guard.
func (g Guard) CreateRevision() int64 { return int64(g.token) }

// check refuses a Guard that belongs to no lock.
func (g Guard) check() error {
	if g.key == "" || g.token <= 0 {
		return errors.New("the zero Guard stands for no lock")
	}
	return nil
}

// lost returns why this process knows that the lock is lost, or nil if it does not know of a loss.
func (g Guard) lost() error {
	if g.holder == nil {
		return nil
	}
	if err := g.holder.Err(); err != nil {
		return fmt.Errorf("lock key %q: %w: %w", g.key, ErrFenced, err)
	}
	return nil
}
