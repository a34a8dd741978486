package hold

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-locks/pawl/cmd/pawl/internal/supervise"
	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/lock"
)

// grip is what pawl lock holds, in one form for all modes.
type grip struct {
	holding
	names, keys []string
	mode        string
	slot        *int // of a semaphore; nil: none
}

// holding is the common interface of the modes' handles.
type holding interface {
	supervise.Holding
	Token() fencing.Token
	Release(ctx context.Context) error
}

// The modes, as in notices and PAWL_MODE.
const (
	exclusive = "exclusive"
	shared    = "shared"
	semaphore = "semaphore"
)

// notice makes a notice about g.
func (g *grip) notice(event string) notice {
	n := notice{Event: event, Name: g.names[0], Token: g.Token(), Mode: g.mode, Slot: g.slot}
	if len(g.names) > 1 {
		n.Names = g.names
	}
	return n
}

// environ is the environment of a command that runs under g, lease being in hex.
func (g *grip) environ(lease string) []string {
	more := []string{"PAWL_MODE=" + g.mode}
	if g.slot != nil {
		more = append(more, "PAWL_SLOT="+strconv.Itoa(*g.slot))
	}
	return environ(g.names, g.keys, g, lease, more...)
}

// take acquires names once, according to the options, and waits unless try is set. It reports
// what is wrong with the names and the options before it needs a session.
func (o *lockOptions) take(ctx context.Context, s pawl.Sessions, names []string, try bool) (*grip, error) {
	opts, mode := lock.Options{EtcdLayout: o.etcd}, exclusive
	if o.shared {
		mode = shared
	}
	if o.permits != noPermits {
		m := lock.NewSemaphore(s, names[0], o.permits, opts)
		p, err := pick(try, m.TryAcquire, m.Acquire)(ctx)
		if err != nil {
			return nil, err
		}
		slot := p.Slot()
		return &grip{p, names, []string{p.Key()}, semaphore, &slot}, nil
	}
	if len(names) == 1 {
		m := lock.New(s, names[0], opts)
		acquire := pick(try, m.TryAcquire, m.Acquire)
		if o.shared {
			acquire = pick(try, m.TryAcquireShared, m.AcquireShared)
		}
		h, err := acquire(ctx)
		if err != nil {
			return nil, err
		}
		return &grip{h, names, []string{h.Key()}, mode, nil}, nil
	}
	wants := make([]lock.Want, len(names))
	for i, name := range names {
		wants[i] = lock.Exclusive(name)
		if o.shared {
			wants[i] = lock.Shared(name)
		}
	}
	m := lock.NewMulti(s, opts, wants...)
	h, err := pick(try, m.TryAcquire, m.Acquire)(ctx)
	if err != nil {
		return nil, err
	}
	return &grip{h, names, h.Keys(), mode, nil}, nil
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
