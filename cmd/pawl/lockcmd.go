package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-locks/pawl/cmd/pawl/internal/supervise"
	"github.com/pawl-locks/pawl/internal/inspect"
	"github.com/pawl-locks/pawl/lease"
	"github.com/pawl-locks/pawl/lock"
)

// tenure is what lock and elect have in common: how long a lease lasts, in whose
// name, and how the end is brought about.
type tenure struct {
	ttl   seconds
	owner string
	grace seconds
	json  bool
}

func (o *tenure) flags(fs *pflag.FlagSet) {
	fs.Var(&o.ttl, "ttl", "how long the lease outlives its last renewal, 3s to 300s (default 15s)")
	fs.StringVar(&o.owner, "owner", "", "who holds it, for people (default host:pid)")
	o.grace = noGrace
	fs.Var(&o.grace, "grace", "from TERM to KILL for the command, at most a sixth of the TTL (default: that)")
	fs.BoolVar(&o.json, "json", false, "say what happens as lines of JSON")
}

// noGrace is --grace where it was not given.
const noGrace = seconds(-1)

// session are o's options for a session. What is wrong with them is wrong usage.
func (o *tenure) session() (lease.Options, error) {
	opts := lease.Options{TTL: time.Duration(o.ttl), Owner: o.owner}
	if err := opts.Check(); err != nil {
		return opts, cli.Exit(cli.ExitUsage, err)
	}
	if most := cmp.Or(opts.TTL, lease.DefaultTTL) / 6; time.Duration(o.grace) > most {
		return opts, cli.Usage("--grace is %v, want at most %v, a sixth of the TTL", time.Duration(o.grace), most)
	}
	return opts, nil
}

// graceOf is the time from TERM to KILL under a lease of ttl as granted.
func (o *tenure) graceOf(ttl time.Duration) time.Duration {
	if o.grace == noGrace {
		return ttl / 6
	}
	return time.Duration(o.grace)
}

// reporter is where a command's notices go: stdout belongs to the COMMAND where there is one.
func (o *tenure) reporter(cmd *cobra.Command, command, verbose bool) reporter {
	var w io.Writer
	switch {
	case !command:
		w = cmd.OutOrStdout()
	case o.json || verbose:
		w = cmd.ErrOrStderr()
	}
	return reporter{w, o.json}
}

type lockOptions struct {
	cli.Connection
	tenure
	waiting
	etcd bool
	pid  int             // hold it only until this process ends; 0: there is none
	over <-chan struct{} // closed when it has
}

func newLock() *cobra.Command {
	var o lockOptions
	cmd := &cobra.Command{
		Use:   "lock NAME [-- COMMAND…]",
		Short: "Hold a lock, or run a command while holding it",
		Long: `Waits for the lock NAME, first come, first served, and holds it: until a signal,
or, with a COMMAND, for as long as that runs. Without a COMMAND it says on stdout
when it holds the lock, with key, token and deadline, and exits 121 when it is lost.

COMMAND has pawl's stdin, stdout, stderr and terminal, and is sent TERM, INT, HUP, QUIT,
USR1, USR2 and WINCH. A job that Ctrl-Z stops keeps its lock. COMMAND finds in its
environment
  PAWL_LOCK      NAME
  PAWL_KEY       the lock's key in etcd
  PAWL_TOKEN     the fencing token: give it to storage that checks it
  PAWL_LEASE     the lease, in hex
  PAWL_DEADLINE  until when it was held at the start, unless renewed (RFC 3339);
                 pawl renews it

When the lock is lost, or renewals fail for so long that less than --grace is left of
it, COMMAND and all that it started get TERM, then KILL, and are dead before the
deadline; likewise when pawl is killed. What COMMAND leaves in the background when it
ends by itself, runs on without the lock.

` + cli.ExitHelp,
		Example: `  pawl lock backup -- ./backup.sh
  pawl lock -n -E 0 hourly -- ./report.sh      # skip if it is running elsewhere
  pawl lock --wait 30 deploy -- make deploy`,
		Args: cli.Words(1, "NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd, args[0], args[1:])
		},
	}
	fs := cmd.Flags()
	o.Connection.Flags(fs)
	o.tenure.flags(fs)
	o.waiting.flags(fs, "the lock")
	fs.IntVar(&o.pid, "pid", 0, "without a COMMAND: give the lock back, or stop waiting, when process PID ends; it gets TERM when the lock is lost")
	fs.BoolVar(&o.etcd, "etcd-layout", false, "take NAME verbatim, to exclude etcdctl lock and clientv3's concurrency.Mutex too")
	cli.CompletesNames(cmd, &o.Connection)
	return cmd
}

// run is pawl lock.
func (o *lockOptions) run(cmd *cobra.Command, name string, argv []string) error {
	opts, err := o.session()
	if err != nil {
		return err
	}
	if err := cli.CheckName(name, o.etcd); err != nil {
		return err
	}
	if err := o.waiting.check(); err != nil {
		return err
	}
	if o.pid != 0 {
		if len(argv) > 0 {
			return cli.Usage("--pid and a COMMAND exclude each other")
		}
		if o.over, err = ended(o.pid); o.pid < 0 || err != nil {
			return cli.Usage("--pid: there is no process %d", o.pid)
		}
	}
	program, err := find(argv)
	if err != nil {
		return err
	}
	if len(argv) == 0 {
		return o.hold(cmd, name, opts, nil)
	}
	c := &supervise.Command{Argv: argv, Path: program, Warn: warn}
	return guarded(c, func() error { return o.hold(cmd, name, opts, c) })
}

// hold waits for the lock, and holds it: while c runs, or without a c until a signal.
func (o *lockOptions) hold(cmd *cobra.Command, name string, opts lease.Options, c *supervise.Command) (err error) {
	sigs := signalsOf(c)
	waiting, stop := sigs.Ends(context.Background())
	if o.over != nil {
		var giveUp context.CancelCauseFunc
		waiting, giveUp = context.WithCancelCause(waiting)
		defer giveUp(nil)
		go func() { // ends with waiting
			select {
			case <-o.over:
				giveUp(errPidEnded)
			case <-waiting.Done():
			}
		}()
	}
	client, closed, err := o.Open(waiting, cmd.Flags())
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
	held, session, err := o.acquire(waiting, client, name, opts, say)
	stop()
	if err != nil {
		return err
	}
	defer func() { err = o.release(cmd, held, session, c != nil, err) }()
	if sig := signalIn(waiting); sig != nil { // in the instant in which it was acquired
		return cut(sig)
	}
	till := held.Deadline()
	say.say(notice{
		Event: "held", Name: name, Key: held.Key(), Token: held.Token(),
		Lease: cli.LeaseHex(session.ID()), TTL: session.TTL().Seconds(), Deadline: &till,
	})
	if c == nil {
		return o.untilSignal(sigs, held, say)
	}
	c.Grace, c.Env = o.graceOf(session.TTL()), environ(name, held, cli.LeaseHex(session.ID()))
	return commandEnd(c.Run(held))
}

// acquire makes a session and takes the lock, within --wait where it is given.
func (o *lockOptions) acquire(ctx context.Context, client *pawl.Client, name string, opts lease.Options, say reporter) (*lock.Held, *pawl.Session, error) {
	granting, cancel := context.WithTimeout(ctx, o.DialTimeout)
	defer cancel()
	session, err := client.NewSession(granting, opts)
	if err != nil {
		return nil, nil, o.sort(ctx, err, name, nil)
	}
	m := lock.New(session, name, lock.Options{EtcdLayout: o.etcd})
	look := func(ctx context.Context) standing {
		ctx, cancel := context.WithTimeout(ctx, o.DialTimeout)
		defer cancel()
		return standingOf(ctx, client, inspect.Scope{Name: name, EtcdLayout: o.etcd}, onLease(session.ID()))
	}
	if o.nonblock {
		trying, cancel := context.WithTimeout(ctx, o.DialTimeout)
		defer cancel()
		held, err := m.TryAcquire(trying)
		return held, session, o.sort(ctx, err, name, look)
	}
	defer o.say(ctx, name, say, o.Verbose, look)()
	if o.wait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, time.Duration(o.wait), errWaited)
		defer cancel()
	}
	held, err := m.Acquire(ctx)
	return held, session, o.sort(ctx, err, name, look)
}

// sort gives an error of acquire its exit code; ctx knows of signals and --wait, look
// of who is in the way.
func (o *lockOptions) sort(ctx context.Context, err error, name string, look func(context.Context) standing) error {
	cause, sig := context.Cause(ctx), signalIn(ctx)
	switch {
	case err == nil:
		return nil
	case sig != nil:
		return cut(sig)
	case cause == errWaited, errors.Is(err, lock.ErrBusy):
		return o.refusal(name, look(context.WithoutCancel(ctx)))
	}
	return cli.Reach(err)
}

// errPidEnded is the cause of a wait that the end of --pid's process ended.
var errPidEnded = errors.New("the process of --pid has ended")

// untilSignal waits for a deadly signal or the end of --pid's process, which are the ways
// to end it, or for the loss.
func (o *lockOptions) untilSignal(sigs *supervise.Signals, held *lock.Held, say reporter) error {
	for {
		select {
		case sig := <-sigs.C:
			if sig.Deadly() {
				return nil
			}
		case <-o.over:
			return nil
		case <-held.Done():
			if o.pid != 0 {
				_ = unix.Kill(o.pid, unix.SIGTERM)
			}
			say.say(notice{Event: "lost", Name: held.Name(), Token: held.Token(), Cause: held.Err().Error()})
			return cli.Exit(cli.ExitLost, held.Err())
		}
	}
}

// lateRelease is how long a lock that is lost or about to be is still given back.
const lateRelease = time.Second

// release gives the lock back and revokes the lease. err is how the work ended;
// it stands, but for a loss that nobody has noticed before.
func (o *lockOptions) release(cmd *cobra.Command, held *lock.Held, session *pawl.Session, command bool, err error) error {
	patience := o.DialTimeout
	if cli.CodeOf(err) == cli.ExitLost {
		patience = min(patience, lateRelease) // what is left, if anything, expires soon
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	rerr := held.Release(ctx)
	if rerr == nil {
		o.reporter(cmd, command, o.Verbose).say(notice{Event: "released", Name: held.Name(), Token: held.Token()})
	}
	if cerr := session.Close(ctx); rerr == nil && cerr != nil {
		rerr = cerr
	}
	switch {
	case rerr == nil || cli.CodeOf(err) == cli.ExitLost:
	case errors.Is(rerr, lock.ErrLost):
		return cli.Exit(cli.ExitLost, rerr)
	default:
		cli.Complain(rerr) // it ends with its lease
	}
	return err
}
