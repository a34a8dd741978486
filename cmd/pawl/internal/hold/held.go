package hold

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-locks/pawl/cmd/pawl/internal/supervise"
	"github.com/pawl-locks/pawl/internal/inspect"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
)

// hold waits for the lock, and holds it while c runs, or without c until a signal.
func (o *lockOptions) hold(cmd *cobra.Command, names []string, opts lease.Options, c *supervise.Command) (err error) {
	sigs := signalsOf(c)
	waiting, stop := sigs.Ends(context.Background())
	if o.user != nil {
		var giveUp context.CancelCauseFunc
		waiting, giveUp = context.WithCancelCause(waiting)
		defer giveUp(nil)
		go func() { // returns when waiting ends
			select {
			case <-o.user.ended:
				giveUp(errPidEnded)
			case <-waiting.Done():
			}
		}()
	}
	client, closed, err := open(waiting, &o.Connection, cmd.Flags())
	if err != nil {
		stop()
		return err
	}
	defer func() {
		if cerr := closed(); cerr != nil {
			cli.Complain(cerr)
		}
	}()
	say := o.reporter(cmd, c != nil, o.Verbose)
	record, ran, err := o.record(waiting, client, names, say)
	if err != nil || ran {
		stop()
		return err
	}
	held, session, err := o.acquire(waiting, client, names, opts, say)
	if err != nil {
		stop()
		return err
	}
	defer func() { err = o.release(cmd, held, session, c != nil, err) }()
	began := time.Now()
	ran, err = o.hasRun(waiting, record, names, say) // while this waited
	stop()
	if sig := signalIn(waiting); sig != nil { // at the moment of the acquisition
		return cut(sig)
	}
	if err != nil || ran {
		return err
	}
	till := held.Deadline()
	n := held.notice("held")
	n.Lease, n.TTL, n.Deadline = cli.LeaseHex(session.ID()), session.TTL().Seconds(), &till
	if n.Key = held.Key(); len(names) > 1 {
		n.Key, n.Keys = "", held.Keys()
	}
	say.say(n)
	if c == nil {
		return o.untilSignal(sigs, held, say)
	}
	c.Grace, c.Env = o.graceOf(o.longest(session.TTL())), held.environ(cli.LeaseHex(session.ID()))
	if o.stall > 0 {
		c.Grace = o.promptGrace()
	}
	if o.wanted != 0 {
		c.Cue, c.Sign = held.Wanted(), syscall.Signal(o.wanted)
	}
	if record != nil && o.recordFirst {
		if err := o.write(record, held, "the command was not started"); err != nil {
			return err
		}
	}
	cli.Stderr.Await(cli.NoticeGrace)
	var ended syscall.Signal // the deadly one that the command was sent
	c.Heard = func(sig supervise.Signal) {
		if sig.Deadly() {
			ended = sig.Number
		}
	}
	p := o.watchProgress(c.Argv[0], held.Progress)
	c.Stops = p.whileStopped()
	err = commandEnd(c.Run(holding{held}))
	p.ended()
	err = o.overheld(p.stalls(err, supervise.Notice(c.Grace), o.endOf(session, began)), session, began)
	if err == nil {
		err = o.writeAfter(record, held, ended)
	}
	if ended == 0 && !cli.WasEnded(err) {
		o.keep(sigs, held.Done(), began)
	}
	return err
}

// acquire makes a session and acquires the names, within --wait if it is given.
func (o *lockOptions) acquire(ctx context.Context, client *pawl.Client, names []string, opts lease.Options, say reporter) (heldLock, *pawl.Session, error) {
	granting, cancel := context.WithTimeout(ctx, o.DialTimeout)
	defer cancel()
	session, err := client.NewSession(granting, opts)
	if err != nil {
		return heldLock{}, nil, o.withExitCode(ctx, err, say, nil)
	}
	scope := inspect.Scope{EtcdLayout: o.etcd, Only: inspect.KindLock, First: 1}
	if o.permits != noPermits {
		scope.Only = inspect.KindSemaphore
	}
	readBlocker := func(ctx context.Context) blocker {
		ctx, cancel := context.WithTimeout(ctx, o.DialTimeout)
		defer cancel()
		return blockerOf(ctx, client, names, scope, onLease(session.ID()))
	}
	if o.nonblock {
		trying, cancel := context.WithTimeout(ctx, o.DialTimeout)
		defer cancel()
		held, err := o.take(trying, session, names, true)
		return held, session, o.withExitCode(ctx, err, say, readBlocker)
	}
	defer o.reportWait(ctx, say, o.Watched(os.Stderr), readBlocker)()
	if o.wait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, time.Duration(o.wait), errWaited)
		defer cancel()
	}
	held, err := o.take(ctx, session, names, false)
	return held, session, o.withExitCode(ctx, err, say, readBlocker)
}

// withExitCode adds an exit code to an error of acquire. ctx has the signals and --wait.
// readBlocker reads who holds the name.
func (o *lockOptions) withExitCode(ctx context.Context, err error, say reporter, readBlocker func(context.Context) blocker) error {
	if end, ok := ctx.Deadline(); ok && !time.Now().Before(end) {
		<-ctx.Done() // a request can fail because of the deadline before the timer of ctx has run
	}
	cause, sig := context.Cause(ctx), signalIn(ctx)
	switch {
	case err == nil:
		return nil
	case sig != nil:
		return cut(sig)
	case cause == errWaited, errors.Is(err, lock.ErrBusy):
		return o.refusal(say, o.Verbose, readBlocker(context.WithoutCancel(ctx)))
	}
	return cli.Reach(err)
}

// errPidEnded is the cause of a wait that the end of --pid's process ended.
var errPidEnded = errors.New("the process of --pid has ended")

// process is a process for which a lock is held.
type process struct {
	ended     <-chan struct{} // closed when it has ended
	terminate func()          // sends it TERM
}

// untilSignal waits for a deadly signal or the end of --pid's process, which end the hold, or for the
// loss. After that, it keeps the lock from others until that process has ended, but at most for --grace.
func (o *lockOptions) untilSignal(sigs *supervise.Signals, held heldLock, say reporter) error {
	var ended <-chan struct{}
	if o.user != nil {
		ended = o.user.ended
		defer holding{held}.Keep()()
	}
	for {
		select {
		case sig := <-sigs.C:
			if o.user == nil && sig.Deadly() || sig.Number == unix.SIGTERM {
				return nil
			} // the script may also get the terminal's signals, and survive them
		case <-ended:
			return nil
		case <-held.Done():
			if o.user != nil {
				o.user.terminate()
			}
			n := held.notice("lost")
			n.Cause = held.Err().Error()
			say.say(n)
			if o.user != nil {
				select {
				case <-ended:
				case <-time.After(o.graceOf(o.longest(held.Session().TTL()))):
				}
			}
			return cli.Exit(cli.ExitLost, held.Err())
		}
	}
}

// leastLeave is how long a release and a revocation may take if the session has ended, or is about to.
const leastLeave = time.Second

// leaveWithin returns how long the release and the revocation of a session with this deadline may
// take: until the deadline, when what is left expires, but at least leastLeave, and in any case at most
// --dial-timeout. A lock can end long before its session.
func leaveWithin(dialTimeout time.Duration, deadline time.Time) time.Duration {
	return min(dialTimeout, max(leastLeave, time.Until(deadline)))
}

// release releases the lock and revokes the lease. err is how the work ended, which is returned
// unless a loss was not noticed before.
func (o *lockOptions) release(cmd *cobra.Command, held heldLock, session *pawl.Session, command bool, err error) error {
	ctx, cancel := context.WithTimeout(context.Background(), leaveWithin(o.DialTimeout, session.Deadline()))
	defer cancel()
	rerr := held.Release(ctx)
	if rerr == nil {
		o.reporter(cmd, command, o.Verbose).say(held.notice("released"))
	}
	if cerr := session.Close(ctx); rerr == nil && cerr != nil {
		rerr = cerr
	}
	switch {
	case rerr == nil || cli.CodeOf(err) == cli.ExitLost || cli.WasEnded(err):
	case errors.Is(rerr, lock.ErrLost):
		return cli.Exit(cli.ExitLost, rerr)
	default:
		cli.Complain(rerr) // the lock ends with its lease
	}
	return err
}
