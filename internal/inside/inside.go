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

// HostFor returns what the sessions of a pawl.Sessions live on. It asks a *pawl.Client
// for no session, and others for the one of now.
var HostFor func(ctx context.Context, sessions any) (session.Host, error)

// HostOf returns what a *pawl.Client's sessions live on, or the reason why the
// client cannot be used: it is nil, closed, or its cluster has changed.
var HostOf func(c any) (session.Host, error)

// A Keeper is what a process that holds for others does with what it holds: see
// queue.Acquisition for each method.
type Keeper interface {
	Promise(until clock.Instant) error
	Until() clock.Instant
	Forfeit(cause error)
}

// KeeperOfHeld returns what stands behind a *lock.Held, a *lock.HeldMulti or a *lock.Permit, and
// KeeperOfTerm what stands behind a *elect.Term.
var KeeperOfHeld, KeeperOfTerm func(v any) Keeper
