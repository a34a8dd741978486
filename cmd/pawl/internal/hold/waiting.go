package hold

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/pawl-locks/pawl/cmd/pawl/internal/cli"
)

// waiting is how long lock and elect wait, and what they do if that was not enough.
type waiting struct {
	wait     seconds
	nonblock bool
	conflict int
}

// noWait is the value of --wait if it was not given, which means no limit.
const noWait = seconds(-1)

func (o *waiting) flags(fs *pflag.FlagSet, what string) {
	o.wait = noWait
	fs.VarP(&o.wait, "wait", "w", "how long to wait for "+what+"; 0 means -n (default: as long as it takes)")
	fs.BoolVarP(&o.nonblock, "nonblock", "n", false, "do not wait if somebody else holds it or waits for it")
	fs.IntVarP(&o.conflict, "conflict-exit-code", "E", cli.ExitNotAcquired, "exit code if it is not acquired with -n or --wait; 0 also prints nothing, or with --verbose or --json one line")
}

// check reports what is wrong with o. A wait of 0 means not to wait.
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

// refusal is the error for a name that was not acquired with -n or within --wait. If -E makes that
// a success, the error is silent, and is reported only if reports are wanted.
func (o *waiting) refusal(r reporter, verbose bool, q blocker) error {
	why := "not acquired"
	if !o.nonblock {
		why = fmt.Sprintf("not acquired within %v", time.Duration(o.wait))
	}
	if o.conflict != cli.ExitOK {
		return cli.Exit(o.conflict, &notAcquired{fmt.Sprintf("%s: %s", why, q.text()), q.failed})
	}
	switch {
	case r.json:
		r.say(q.notice("skipped"))
	case verbose:
		warn(why + ": " + q.text())
	}
	return cli.Exit(cli.ExitOK, nil)
}

// notAcquired says why a name was not acquired; failed, unless nil, is among the reasons.
type notAcquired struct {
	text   string
	failed error
}

func (e *notAcquired) Error() string { return e.text }
func (e *notAcquired) Unwrap() error { return e.failed }

// patience is how long pawl waits before it prints what it waits for.
const patience = time.Second

// reportWait reports a wait that lasts, until stop, which waits for reportWait to return. The text for
// people is written if somebody watches.
func (o *waiting) reportWait(ctx context.Context, r reporter, watched bool, readBlocker func(context.Context) blocker) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	gone := make(chan struct{})
	go func() { // returns after stop, which waits for it
		defer close(gone)
		select {
		case <-time.After(patience):
		case <-ctx.Done():
			return
		}
		q := readBlocker(ctx)
		switch {
		case ctx.Err() != nil:
		case r.json:
			r.say(q.notice("waiting"))
		case watched:
			warn("waiting: " + q.text())
		}
	}()
	return func() {
		cancel()
		<-gone
	}
}
