package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-locks/pawl/internal/inspect"
)

// waiting is how long lock and elect wait, and what they do when that was not enough.
type waiting struct {
	wait     seconds
	nonblock bool
	conflict int
}

// noWait is --wait where it was not given: it waits as long as it takes.
const noWait = seconds(-1)

func (o *waiting) flags(fs *pflag.FlagSet, what string) {
	o.wait = noWait
	fs.VarP(&o.wait, "wait", "w", "how long to wait for "+what+"; 0 is -n (default: as long as it takes)")
	fs.BoolVarP(&o.nonblock, "nonblock", "n", false, "do not wait when another holds it or waits for it")
	fs.IntVarP(&o.conflict, "conflict-exit-code", "E", cli.ExitNotAcquired, "exit code when it is not acquired with -n or --wait; with 0 nothing is said either")
}

// check finds what is wrong with o. Not to wait is what a wait of 0 says.
func (o *waiting) check() error {
	if o.wait == 0 {
		o.nonblock = true
	}
	if o.conflict < 0 || o.conflict > 255 {
		return cli.Usage("-E is %d, want 0 to 255", o.conflict)
	}
	return nil
}

// errWaited is the cause of a wait that --wait ended.
var errWaited = errors.New("not acquired within --wait")

// refusal is the error for a name that was not acquired with -n or within --wait. It is
// silent where that is called success.
func (o *waiting) refusal(name string, q standing) error {
	if o.conflict == cli.ExitOK {
		return cli.Exit(cli.ExitOK, nil)
	}
	why := "not acquired"
	if !o.nonblock {
		why = fmt.Sprintf("not acquired within %v", time.Duration(o.wait))
	}
	return cli.Exit(o.conflict, fmt.Errorf("%s: %s", why, q.text(name)))
}

// standing is who is in the way to a name. The zero one is that of nobody, or of an unknown.
type standing struct {
	holder string // for people; "": nobody
	since  time.Time
	ahead  int // who waits, and is served earlier
}

// standingOf reads who is in the way, as far as can be read now; mine picks the caller's
// own place in the queue.
func standingOf(ctx context.Context, c *pawl.Client, scope inspect.Scope, mine func(inspect.Position) bool) standing {
	s, err := inspect.Read(ctx, c, scope)
	if err != nil || len(s.Queues) == 0 {
		return standing{}
	}
	var out standing
	for i, p := range s.Queues[0].Queue {
		switch {
		case mine(p):
			return out
		case i == 0:
			out.holder, out.since = cli.Who(p), p.Since
		default:
			out.ahead++
		}
	}
	return out
}

// text says it for people: "backup" is held by ann for 3 min, 2 ahead.
func (q standing) text(name string) string {
	if q.holder == "" {
		return strconv.Quote(name) + " is taken"
	}
	s := fmt.Sprintf("%q is held by %s", name, cli.Plain(q.holder))
	if !q.since.IsZero() {
		s += " for " + lasting(time.Since(q.since))
	}
	if q.ahead > 0 {
		s += fmt.Sprintf(", %d ahead", q.ahead)
	}
	return s
}

// lasting is d for people, in its largest unit.
func lasting(d time.Duration) string {
	for _, u := range []struct {
		unit time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "min"}} {
		if d >= u.unit {
			return fmt.Sprintf("%d %s", d/u.unit, u.name)
		}
	}
	return fmt.Sprintf("%d s", max(0, d)/time.Second)
}

// patience is how long pawl waits before it says what for.
const patience = time.Second

// say reports a wait that lasts, until stop, which waits for it. For people it is said
// on a terminal, and elsewhere with --verbose.
func (o *waiting) say(ctx context.Context, name string, r reporter, verbose bool, look func(context.Context) standing) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	gone := make(chan struct{})
	go func() { // ends with stop, which waits for it
		defer close(gone)
		select {
		case <-time.After(patience):
		case <-ctx.Done():
			return
		}
		q := look(ctx)
		switch {
		case ctx.Err() != nil:
		case r.json:
			n := notice{Event: "waiting", Name: name, Holder: q.holder, Ahead: q.ahead}
			if !q.since.IsZero() {
				n.Since = &q.since
			}
			r.say(n)
		case verbose || cli.IsTerminal(os.Stderr):
			warn("waiting: " + q.text(name))
		}
	}()
	return func() {
		cancel()
		<-gone
	}
}

// onLease picks the place on a lease.
func onLease(id int64) func(inspect.Position) bool {
	return func(p inspect.Position) bool { return p.Lease == id }
}

// ofThisProcess picks the place that this process has, by what the key says of it.
func ofThisProcess(p inspect.Position) bool {
	host, _ := os.Hostname()
	return p.PID == os.Getpid() && strings.EqualFold(p.Host, host)
}
