// Package kvinside lets the packages of this module make the clients and guards that users of package
// kv only receive. Package kv sets the hooks when it is initialised.
package kvinside

import (
	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/cluster"
)

// Client returns a *kv.Client on c.
var Client func(c *cluster.Cluster) any

// Guard returns the kv.Guard of the lock whose key has the create revision token. holder reports
// whether this process already knows that the lock is lost. It is queried at each transaction, must not
// block, and must be a pointer or nil.
var Guard func(key string, token fencing.Token, holder Holder) any

// A Holder holds a lock. Its Err returns why the lock is lost, or nil if it is not.
type Holder interface{ Err() error }
