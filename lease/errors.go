package lease

import (
	"errors"

	"github.com/pawl-locks/pawl/internal/cluster"
)

// Why a session has ended. The error of Session.Err matches exactly one of them, or
// pawl.ErrClusterChanged, or, for a session of elect.Run, elect.ErrOverrun.
var (
	// ErrExpired means that renewals were not confirmed in time, by this process's clock. A session that finds
	// its own records in contradiction, which is a defect of pawl, ends with it too: it is not trusted any more,
	// and its lease is left to expire.
	ErrExpired = errors.New("lease expired by our own clock")
	// ErrRevoked means that the server answered that the lease, or the session key, is gone, or that
	// somebody rewrote the session key, as a takeover does.
	ErrRevoked = errors.New("lease is gone at the server")
	// ErrClosed means that this process ended the session, by Session.Close, Detach or Client.Close.
	ErrClosed = cluster.ErrClosed
)

// ErrTakenOver is matched by the error of a Resume whose Handle another process has already used.
var ErrTakenOver = errors.New("handle was used already")
