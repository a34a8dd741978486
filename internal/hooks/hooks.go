// Package hooks lets lock, elect, the queue and the test kits reach what the public types of packages
// pawl, kv and lock hide, without making it part of an API. Each of these packages sets its hooks when
// it is initialised.
package hooks

import (
	"context"
	"os"
	"time"

	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/internal/session"
)

// SessionOf returns the engine of a *pawl.Session, or nil for a nil one.
var SessionOf func(s any) *session.Session

// Bequeath makes the processes that this one starts keep a *pawl.Client's files in Config.ReclaimDir locked,
// because they work under its locks. It is called before the client's first session.
var Bequeath func(client any)

// ProofOf returns the file by which processes keep a *pawl.Session's file in Config.ReclaimDir locked after
// Bequeath, or nil if there is none.
var ProofOf func(session any) *os.File

// HostFor returns the Host of a pawl.Sessions' sessions. For a *pawl.Client it needs no session; for
// others it gets the current session.
var HostFor func(ctx context.Context, sessions any) (session.Host, error)

// Carry returns an error that says which name, if any, is not on the cluster of a pawl.Sessions that
// comes from a pawl.Clusters. It returns nil for other Sessions, which know only one cluster. more are
// the other names of a set.
var Carry func(sessions any, name string, more []string) error

// HostOf returns the Host of a *pawl.Client's sessions, or an error if the client cannot be used
// because it is nil or closed, or because its cluster has changed.
var HostOf func(c any) (session.Host, error)

// Own returns the sessions of a pawl.Sessions' client for one caller alone: each call of their Session
// returns the same session while it is valid, and another one after it has ended, or after end was
// called. end closes it in the background, after a time. ttl is the TTL that they ask for. own is nil if
// sessions are not a client's. One goroutine at a time uses them.
var Own func(sessions any) (own any, end func(after time.Duration), ttl time.Duration)

// A Keeper is an acquisition for a process that holds on behalf of others. See queue.Acquisition for
// each method.
type Keeper interface {
	Promise(until clock.Instant) error
	Retract()
	Until() clock.Instant
	Forfeit(cause error)
}

// KeeperOfHeld returns the acquisition of a *lock.Held, and KeeperOfTerm that of a *elect.Term.
var KeeperOfHeld, KeeperOfTerm func(v any) Keeper

// A Record holds the time of a name's last run; see lock.Mutex.Once. One goroutine at a time uses it.
type Record interface {
	// Covers reports whether a run for at, or for a later time, is recorded.
	Covers(ctx context.Context, at time.Time) (bool, error)
	// Write records a run for at, if held, a *lock.Held, is held and nobody has written the record
	// since Covers read it.
	Write(ctx context.Context, held any, at time.Time) error
}

// RecordOf returns the Record of a *lock.Mutex.
var RecordOf func(ctx context.Context, mutex any) (Record, error)

// HeldOf makes the *lock.Held of an acquisition, a *queue.Acquisition, on a *pawl.Session.
var HeldOf func(acquisition, session any) any
