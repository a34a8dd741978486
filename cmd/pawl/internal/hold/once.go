package hold

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-locks/pawl/cmd/pawl/internal/supervise"
	"github.com/pawl-locks/pawl/internal/hooks"
	"github.com/pawl-locks/pawl/kv"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
)

// firing is a flag for the time for which a run is due: RFC 3339, or "now/1h", the last full hour.
type firing struct{ time.Time }

// String is "" for a flag that was not given.
func (f *firing) String() string {
	if f.IsZero() {
		return ""
	}
	return f.Format(time.RFC3339Nano)
}

func (f *firing) Type() string { return "time" }

func (f *firing) Set(text string) (err error) {
	period, now := strings.CutPrefix(text, "now/")
	if !now {
		f.Time, err = time.Parse(time.RFC3339, text)
		if year := f.UTC().Year(); err != nil || f.IsZero() || year < 0 || year > 9999 { // which the record could not hold
			return fmt.Errorf("want a time like 2026-01-02T03:00:00Z, or now/5m, now rounded down to 5 minutes")
		}
		return nil
	}
	every := periodOf(period)
	if every <= 0 {
		return fmt.Errorf("after now/ %q is no period: want one like 5m, 1h or 1d", period)
	}
	f.Time = roundDown(time.Now(), every)
	return nil
}

// periodOf reads a duration, or a number of days as in "1d". It returns 0 for anything else.
func periodOf(text string) time.Duration {
	const day = 24 * time.Hour
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.Atoi(days)
		if err != nil || n < 0 || n > int(math.MaxInt64/day) {
			return 0
		}
		return time.Duration(n) * day
	}
	var every seconds
	if every.Set(text) != nil {
		return 0
	}
	return time.Duration(every)
}

// roundDown returns the last multiple of every. Days begin at midnight UTC, and weeks on Monday.
func roundDown(now time.Time, every time.Duration) time.Time { return now.UTC().Truncate(every) }

// checkOnce finds what excludes --once, --at-least and --max-hold.
func (o *lockOptions) checkOnce(names, argv []string) error {
	switch {
	case o.atLeast > 0 && len(argv) == 0:
		return cli.Usage("--at-least wants a COMMAND")
	case o.maxHold > 0 && time.Duration(o.maxHold) < leastMaxHold:
		return cli.Usage("--max-hold is %v, want at least %v", time.Duration(o.maxHold), leastMaxHold)
	case o.maxHold > 0 && o.atLeast >= o.maxHold:
		return cli.Usage("--at-least is %v, want less than --max-hold, %v", time.Duration(o.atLeast), time.Duration(o.maxHold))
	case o.maxHold > 0 && o.grace > o.maxHold/6:
		return cli.Usage("--grace is %v, want at most %v, a sixth of --max-hold", time.Duration(o.grace), time.Duration(o.maxHold/6))
	case o.once.IsZero() && o.recordFirst:
		return cli.Usage("--at-most-once wants --once")
	case o.once.IsZero():
	case len(argv) == 0:
		return cli.Usage("--once wants a COMMAND, which is what runs once")
	case len(names) > 1, o.shared, o.permits != noPermits, o.etcd:
		return cli.Usage("--once wants one NAME, and excludes --shared, --permits and --etcd-layout")
	}
	return nil
}

// leastMaxHold leaves the command time to do something before it is sent TERM.
const leastMaxHold = time.Second

// longest is how long the lock is held at most if no renewal is confirmed.
func (o *lockOptions) longest(ttl time.Duration) time.Duration {
	if o.maxHold > 0 {
		return min(ttl, time.Duration(o.maxHold))
	}
	return ttl
}

// promptGrace is the grace that is known before the session is.
func (o *lockOptions) promptGrace() time.Duration {
	return o.graceOf(o.longest(cmp.Or(time.Duration(o.ttl), lease.DefaultTTL)))
}

// endOf is when a lock that was held since began ends, unless its session is renewed.
func (o *lockOptions) endOf(session *pawl.Session, began time.Time) time.Time {
	end := session.Deadline()
	if most := began.Add(time.Duration(o.maxHold)); o.maxHold > 0 && most.Before(end) {
		return most
	}
	return end
}

// overheld names --max-hold in the error of a command that was ended because of it. The command is
// ended before the lock is, as a command without renewals is.
func (o *lockOptions) overheld(err error, session *pawl.Session, began time.Time) error {
	most := time.Duration(o.maxHold)
	if most == 0 || !errors.Is(err, supervise.ErrRunningOut) || session.Deadline().Before(began.Add(most)) {
		return err
	}
	return cli.Exit(cli.ExitLost, fmt.Errorf("the command was ended: %w, %v", errMaxHold, most))
}

var errMaxHold = errors.New("it held the lock for as long as --max-hold allows")

// keep returns once the lock was held for --at-least, is lost, or a signal arrives.
func (o *lockOptions) keep(sigs *supervise.Signals, lost <-chan struct{}, began time.Time) {
	left := time.Duration(o.atLeast) - time.Since(began)
	if left <= 0 {
		return
	}
	waiting, stop := sigs.Ends(context.Background())
	defer stop()
	select {
	case <-time.After(left):
	case <-waiting.Done():
	case <-lost:
	}
}

// record finds the record of --once, and whether the run is recorded already. Without --once there
// is no record.
func (o *lockOptions) record(ctx context.Context, client *pawl.Client, names []string, say reporter) (hooks.Record, bool, error) {
	if o.once.IsZero() {
		return nil, false, nil
	}
	r, err := hooks.RecordOf(ctx, lock.New(client, names[0], lock.Options{}))
	if err != nil {
		return nil, false, o.withExitCode(ctx, err, say, nil)
	}
	ran, err := o.hasRun(ctx, r, names, say)
	return r, ran, err
}

// hasRun reports whether a run for --once is recorded. Without a record it has not run.
func (o *lockOptions) hasRun(ctx context.Context, r hooks.Record, names []string, say reporter) (bool, error) {
	if r == nil {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, o.DialTimeout)
	defer cancel()
	ran, err := r.Covers(ctx, o.once.Time)
	if ran && err == nil { // a record that is ahead says nothing of a run
		say.say(notice{Event: "recorded", Name: names[0], Cause: "it has run for " + o.once.String() + ", or a later time"})
	}
	return ran, o.withExitCode(ctx, err, say, nil)
}

// write records the run of --once. what says how far it has come, for an error.
func (o *lockOptions) write(r hooks.Record, held heldLock, what string) error {
	ctx, cancel := context.WithTimeout(context.Background(), o.DialTimeout)
	defer cancel()
	switch err := r.Write(ctx, held.Held, o.once.Time); {
	case err == nil:
		return nil
	case held.Err() != nil:
		return cli.Exit(cli.ExitLost, fmt.Errorf("%s, and its run is not recorded: %w", what, held.Err()))
	case errors.Is(err, kv.ErrUnknown):
		return cli.Exit(cli.ExitFailed, fmt.Errorf("%s, and whether its run is recorded is not known: %w", what, err))
	default:
		return cli.Exit(cli.ExitFailed, fmt.Errorf("%s, and its run is not recorded: %w", what, err))
	}
}

// writeAfter records the run of --once after the command has exited with 0. A command that was told to
// end has usually not done all its work, whatever its exit code, so its run is not recorded, and pawl
// ends as of the signal.
func (o *lockOptions) writeAfter(r hooks.Record, held heldLock, ended syscall.Signal) error {
	switch {
	case r == nil || o.recordFirst:
		return nil
	case ended != 0:
		return cli.EndedBy(ended, fmt.Errorf("the command was sent a signal (%v) and exited with 0: its run is not recorded, and another pawl may repeat it", ended))
	}
	return o.write(r, held, "the command succeeded")
}
