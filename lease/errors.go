package lease

import (
	"errors"

	"github.com/pawl-locks/pawl/internal/cluster"
)

// Why a session has ended. Exactly one of them, or pawl.ErrClusterChanged, is
// matched by Session.Err, by errors.Is.
var (
	// ErrExpired: renewals were not confirmed in time, by this process's own
	// clock.
	ErrExpired = errors.New("lease expired by our own clock")
	// ErrRevoked: the server says that the lease is gone.
	ErrRevoked = errors.New("lease is gone at the server")
	// ErrClosed: this process ended it, by Session.Close, Detach or
	// Client.Close.
	ErrClosed = cluster.ErrClosed
)

// ErrTakenOver is matched by the error of a Resume whose Handle another process
// has used already.
var ErrTakenOver = errors.New("handle was used already")
