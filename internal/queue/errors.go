package queue

import (
	"errors"
	"fmt"
	"strings"

	"github.com/pawl-locks/pawl/internal/cluster"
	"github.com/pawl-locks/pawl/internal/keys"
)

// The sentinels that lock and elect export under their own names.
var (
	// ErrLost means that it was held and no longer is. The error matches the cause too.
	ErrLost = errors.New("lost")
	// ErrBusy means that somebody else holds or waits.
	ErrBusy = errors.New("busy")
	// ErrKeyDeleted means that the acquisition's key was deleted, alone or with its lease.
	ErrKeyDeleted = errors.New("own key was deleted")
	// ErrKeyOverwritten means that somebody else wrote to the acquisition's key.
	ErrKeyOverwritten = errors.New("own key was overwritten")
	// ErrOther means that the key to be resumed was acquired as something else, as its value says.
	ErrOther = errors.New("acquired as something else")
	// ErrMaxHold means that it was held for as long as its caller allowed.
	ErrMaxHold = errors.New("held for too long")
	// ErrStalled means that no Progress was reported for as long as its caller allowed.
	ErrStalled = errors.New("stalled")
)

// loss is the error of a holder that lost the lock. It matches ErrLost and, by what it wraps,
// exactly one cause.
type loss struct{ cause error }

func (l *loss) Error() string   { return "lost: " + l.cause.Error() }
func (l *loss) Unwrap() []error { return []error{ErrLost, l.cause} }

// cause returns the error of an acquisition that was never held: err without ErrLost.
func cause(err error) error {
	var l *loss
	if errors.As(err, &l) {
		return l.cause
	}
	return err
}

// both joins two errors in one text; either may be nil. It does not repeat also if err already
// contains it, which it does when a function returned the cause of its context's end.
func both(err, also error) error {
	switch {
	case err == nil:
		return also
	case also == nil, errors.Is(err, also):
		return err
	}
	return fmt.Errorf("%w; %w", err, also)
}

// explain adds to an error what is missing: the permissions that a role needs, because etcd's error
// does not say on which name, or what a set needs of the server.
func (a *Acquisition) explain(err error) error {
	switch {
	case cluster.IsPermissionDenied(err):
		var needs strings.Builder
		fmt.Fprintf(&needs, "%q", keys.SessionRoot(a.s.Host().Namespace))
		for _, q := range a.queues {
			fmt.Fprintf(&needs, " and from %q", q.Prefix)
		}
		return fmt.Errorf("%w (the role needs readwrite on all keys from %s)", err, &needs)
	case a.isSet() && cluster.IsTooManyOps(err):
		return fmt.Errorf("%w (the server's --max-txn-ops is too low for %d names at once)", err, len(a.queues))
	}
	return err
}
