// Package kvinside lets pawl's own packages make what users of package kv only
// receive: its client and its guards. Package kv fills the hooks in when it is
// initialised.
package kvinside

import (
	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/cluster"
)

// Client returns a *kv.Client on c.
var Client func(c *cluster.Cluster) any

// Guard returns the kv.Guard of the lock whose key has the create revision token.
// holder reports whether this process already knows the lock to be lost. It is
// asked at each transaction, must not block, and must be a pointer, or nil.
var Guard func(key string, token fencing.Token, holder Holder) any

// A Holder is what holds a lock. Its Err is why the lock is lost; nil: it is not.
type Holder interface{ Err() error }
