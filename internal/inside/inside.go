// Package inside lets lock and elect, and the test kits, reach the engine
// behind the public types of package pawl, without that engine being part of
// anybody's API. Package pawl fills the hooks in when it is initialised.
package inside

import (
	"context"

	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/internal/session"
)

// SessionOf returns the engine of a *pawl.Session; nil for a nil one.
var SessionOf func(s any) *session.Session

// HostFor returns the Host of a pawl.Sessions' sessions. For a *pawl.Client it needs no
// session, for others it gets the current one.
var HostFor func(ctx context.Context, sessions any) (session.Host, error)

// Carry reports which name, if any, is not on the cluster of a pawl.Sessions that comes from
// a pawl.Clusters; nil for other Sessions, which know of one cluster only. A set has more names.
var Carry func(sessions any, name string, more []string) error

// HostOf returns the Host of a *pawl.Client's sessions, or an error why the client cannot be
// used: it is nil, closed, or its cluster has changed.
var HostOf func(c any) (session.Host, error)

// A Keeper is the interface of a process that holds on behalf of others: see queue.Acquisition
// for each method.
type Keeper interface {
	Promise(until clock.Instant) error
	Retract()
	Until() clock.Instant
	Forfeit(cause error)
}

// KeeperOfHeld returns the acquisition of a *lock.Held, and KeeperOfTerm that of a *elect.Term.
var KeeperOfHeld, KeeperOfTerm func(v any) Keeper

// HeldOf makes the *lock.Held of an acquisition, a *queue.Acquisition, on a *pawl.Session.
var HeldOf func(acquisition, session any) any
