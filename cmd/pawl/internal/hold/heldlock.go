package hold

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-locks/pawl/lock"
)

// heldLock is what pawl lock holds.
type heldLock struct{ *lock.Held }

// notice makes a notice about g.
func (g heldLock) notice(event string) notice {
	n := notice{Event: event, Name: g.Name(), Token: g.Token(), Mode: g.Mode().String()}
	if slot := g.Slot(); slot >= 0 {
		n.Slot = &slot
	}
	if names := g.Names(); len(names) > 1 {
		n.Names = names
	}
	return n
}

// environ is the environment of a command that runs under g, lease being in hex.
func (g heldLock) environ(lease string) []string {
	more := []string{"PAWL_MODE=" + g.Mode().String()}
	if slot := g.Slot(); slot >= 0 {
		more = append(more, "PAWL_SLOT="+strconv.Itoa(slot))
	}
	return environ(g.Names(), g.Keys(), g, lease, more...)
}

// take acquires names once, according to the options, and waits unless try is set. It reports
// what is wrong with the names and the options before it needs a session.
func (o *lockOptions) take(ctx context.Context, s pawl.Sessions, names []string, try bool) (heldLock, error) {
	opts := lock.Options{EtcdLayout: o.etcd, MaxHold: time.Duration(o.maxHold), Stall: o.stallOf(o.promptGrace())}
	var h *lock.Held
	var err error
	switch {
	case o.permits != noPermits:
		m := lock.NewSemaphore(s, names[0], o.permits, opts)
		h, err = pick(try, m.TryAcquire, m.Acquire)(ctx)
	default:
		wants := make([]lock.Want, len(names))
		for i, name := range names {
			wants[i] = pick(o.shared, lock.Shared, lock.Exclusive)(name)
		}
		m := lock.NewMulti(s, opts, wants...)
		h, err = pick(try, m.TryAcquire, m.Acquire)(ctx)
	}
	return heldLock{h}, err
}

func pick[T any](first bool, a, b T) T {
	if first {
		return a
	}
	return b
}

// check finds what is wrong with names and options, before any request.
func (o *lockOptions) check(names []string) error {
	switch {
	case o.permits == noPermits:
	case o.shared:
		return cli.Usage("--permits and --shared exclude each other")
	case len(names) > 1:
		return cli.Usage("--permits wants one NAME, not %d", len(names))
	}
	for _, name := range names {
		if err := cli.CheckName(name, o.etcd); err != nil {
			return err
		}
		if len(names) > 1 && strings.Contains(name, "\n") {
			return cli.Usage("NAME: of several names %q has a line break, which separates them in PAWL_LOCKS", name)
		}
	}
	if _, err := o.take(context.Background(), noSession{}, names, true); !errors.Is(err, errNoSession) {
		return cli.Usage("%w", errors.Unwrap(err)) // without what was to be done
	}
	return nil
}

// noSession is a Sessions for checks: a call of it shows that the arguments are valid.
type noSession struct{}

var errNoSession = errors.New("the arguments are right")

func (noSession) Session(context.Context) (*pawl.Session, error) { return nil, errNoSession }
