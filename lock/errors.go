package lock

import (
	"errors"

	"github.com/pawl-locks/pawl/internal/queue"
)

// The errors that errors.Is matches. ErrLost comes with exactly one cause: ErrKeyDeleted,
// ErrKeyOverwritten, ErrMaxHold, ErrStalled, lease.ErrExpired, lease.ErrRevoked, lease.ErrClosed or
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
	// ErrStalled means that no Progress was reported for as long as Options.Stall allows.
	ErrStalled = queue.ErrStalled
)

// The errors of Once and Every that concern the record of a name's last run.
var (
	// ErrRecordAhead means that the record is of a time that is still more than a minute ahead. The
	// machine that wrote it has, or had, a clock that is ahead, or this machine's clock is behind.
	// Nothing runs until then, unless the record is set back: pawl runs --set.
	ErrRecordAhead = errors.New("the record of the last run is ahead of this machine's clock")
	// ErrOtherSchedule means that the record was written under another schedule than that of this call
	// of Every.
	ErrOtherSchedule = errors.New("the record of the last run is of another schedule")
	// ErrSchedule means that Schedule.Next returned a time that is not after the one given.
	ErrSchedule = errors.New("the schedule does not advance")
)
