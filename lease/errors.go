package lease

import (
	"errors"

	"github.com/pawl-locks/pawl/internal/cluster"
)

// Why a session has ended. The error of Session.Err matches exactly one of them, or
// pawl.ErrClusterChanged, or, for a session of elect.Run, elect.ErrOverrun.
var (
	// ErrExpired: renewals were not confirmed in time, according to this process's own clock.
	ErrExpired = errors.New("lease expired by our own clock")
	// ErrRevoked: the server answered that the lease, or the session key, is gone, or that
	// somebody rewrote the session key, as a takeover does.
	ErrRevoked = errors.New("lease is gone at the server")
	// ErrClosed: this process ended it, by Session.Close, Detach or
	// Client.Close.
	ErrClosed = cluster.ErrClosed
)

// ErrTakenOver is matched by the error of a Resume whose Handle was used by another process
// before.
var ErrTakenOver = errors.New("handle was used already")
