package lock

import (
	"errors"

	"github.com/pawl-locks/pawl/internal/queue"
)

// The errors that errors.Is matches. ErrLost comes with exactly one cause: ErrKeyDeleted,
// ErrKeyOverwritten, ErrMaxHold, lease.ErrExpired, lease.ErrRevoked, lease.ErrClosed or
// pawl.ErrClusterChanged.
var (
	// ErrBusy means that another holds the name or waits for it. The error's text names the
	// holder's key and lease.
	ErrBusy = queue.ErrBusy
	// ErrLost means that it was held and no longer is.
	ErrLost = queue.ErrLost
	// ErrReleased means that it was released, by Release or Do.
	ErrReleased = errors.New("released")
	// ErrKeyDeleted means that the key was deleted, alone or with its lease. If the lease is gone,
	// the session matches lease.ErrRevoked a moment later.
	ErrKeyDeleted = queue.ErrKeyDeleted
	// ErrKeyOverwritten means that somebody else wrote to the key.
	ErrKeyOverwritten = queue.ErrKeyOverwritten
	// ErrMaxHold means that it was held for longer than Options.MaxHold.
	ErrMaxHold = queue.ErrMaxHold
)
