package lock

import (
	"errors"

	"github.com/pawl-locks/pawl/internal/queue"
)

// What errors.Is matches. ErrLost comes with exactly one cause: ErrKeyDeleted,
// ErrKeyOverwritten, ErrMaxHold, lease.ErrExpired, lease.ErrRevoked, lease.ErrClosed or
// pawl.ErrClusterChanged.
var (
	// ErrBusy: another holds the name or waits for it. The error's text names
	// the holder's key and lease.
	ErrBusy = queue.ErrBusy
	// ErrKind: the name is a semaphore's, and a lock or an election wants it, or the other
	// way round. Nothing was put then. Or a key that is to be resumed was acquired as something
	// else: another kind of lock, or more names; it stays as it is, and can be resumed as that.
	ErrKind = queue.ErrKind
	// ErrLost: it was held, and is not any more.
	ErrLost = queue.ErrLost
	// ErrReleased: it was given back, by Release or Do.
	ErrReleased = errors.New("released")
	// ErrKeyDeleted: somebody deleted the key while its session was alive.
	ErrKeyDeleted = queue.ErrKeyDeleted
	// ErrKeyOverwritten: somebody else wrote to the key.
	ErrKeyOverwritten = queue.ErrKeyOverwritten
	// ErrMaxHold: it was held for longer than Options.MaxHold.
	ErrMaxHold = queue.ErrMaxHold
)
