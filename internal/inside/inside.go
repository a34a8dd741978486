// Package inside lets lock and elect, and the test kits, reach the engine
// behind the public types of package pawl, without that engine being part of
// anybody's API. Package pawl fills the hooks in when it is initialised.
package inside

import (
	"context"
	"time"

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

// A Record holds the time of a name's last run: see lock.Mutex.Once. It is used from one goroutine at a time.
type Record interface {
	// Covers reports whether a run for at, or for a later time, is recorded.
	Covers(ctx context.Context, at time.Time) (bool, error)
	// Write records a run for at, if held, a *lock.Held, is held and nobody has written the record since Covers read it.
	Write(ctx context.Context, held any, at time.Time) error
}

// RecordOf returns the Record of a *lock.Mutex.
var RecordOf func(ctx context.Context, mutex any) (Record, error)

// HeldOf makes the *lock.Held of an acquisition, a *queue.Acquisition, on a *pawl.Session.
var HeldOf func(acquisition, session any) any
