package lease

import (
	"errors"
	"fmt"

	"github.com/pawl-locks/pawl/internal/cluster"
)

// Why a session is over. Exactly one of them, or pawl.ErrClusterChanged, is
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

// cause says why in more words than its sentinel.
type cause struct {
	sentinel error
	detail   string
	last     error // the trouble before, for the text only: not matched
}

func because(sentinel error, format string, args ...any) error {
	return &cause{sentinel: sentinel, detail: fmt.Sprintf(format, args...)}
}

func (c *cause) Error() string {
	s := c.sentinel.Error()
	if c.detail != "" {
		s += ": " + c.detail
	}
	if c.last != nil {
		s += " (last trouble: " + c.last.Error() + ")"
	}
	return s
}

func (c *cause) Unwrap() error { return c.sentinel }
