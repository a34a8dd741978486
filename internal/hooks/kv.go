package hooks

import (
	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/cluster"
)

// KVClient returns a *kv.Client on c. Users of package kv only receive clients and guards.
var KVClient func(c *cluster.Cluster) any

// KVGuard returns the kv.Guard of the lock whose key has the create revision token. holder reports
// whether this process already knows that the lock is lost. It is queried at each transaction, must not
// block, and must be a pointer or nil.
var KVGuard func(key string, token fencing.Token, holder Holder) any

// A Holder holds a lock. Its Err returns why the lock is lost, or nil if it is not.
type Holder interface{ Err() error }
