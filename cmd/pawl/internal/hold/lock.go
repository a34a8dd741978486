package hold

import (
	"cmp"
	"errors"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/pawl-locks/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-locks/pawl/cmd/pawl/internal/supervise"
)

type lockOptions struct {
	cli.Connection
	commonOptions
	waiting
	etcd    bool
	shared  bool
	permits int      // slots of the semaphore; noPermits if it is not a semaphore
	pid     int      // hold it only until this process ends, if not 0
	user    *process // the process with number pid
	once    firing   // run only what has not run for it, or later; if zero, run always
	// recordFirst is --at-most-once: the run is recorded before COMMAND starts.
	recordFirst bool

	atLeast seconds
	maxHold seconds
	wanted  sign // the signal for COMMAND once somebody waits; zero for none
}

// noPermits is the value of --permits if it was not given.
const noPermits = -1

// NewLock makes pawl lock.
func NewLock() *cobra.Command {
	var o lockOptions
	cmd := &cobra.Command{
		Use:   "lock NAME… [-- COMMAND…]",
		Short: "Hold a lock, or run a command while holding it",
		Long: `Waits for the lock NAME, first come, first served, and holds it until a signal or, with
a COMMAND, as long as that runs. Without a COMMAND it prints key, token and deadline on
stdout when it holds the lock, and exits with 121 when the lock is lost.

With --shared it holds NAME together with other shared holders, the readers. Without it,
it excludes everybody, as a writer does; readers and writers wait in one queue. With
--permits N it holds one of N numbered slots of the semaphore NAME, so that at most N
hold it at once; all users of NAME should give the same N. Several NAMEs, at most 32,
are locked at once, all or none. Two such commands never deadlock, whatever the order
of their names, if they take no other lock meanwhile. Several NAMEs require a COMMAND or
--pid.

With --once TIME the COMMAND runs once for that time, on one of all machines: if a run
for TIME, or for a later time, is recorded, pawl exits with 0 and runs nothing. A pawl
that waits for the lock meanwhile finds the record once it has the lock. A run is
recorded when COMMAND exits with 0, so if it fails, or its machine dies, the next pawl
in the queue runs COMMAND. One that was sent TERM, INT, HUP or QUIT is not recorded,
even if it exits with 0, and pawl's code is 128+n. With --at-most-once the run is
recorded before COMMAND starts, and never repeated. If the record is of a time more than
a minute ahead of this machine's clock, pawl runs nothing and exits with 125: pawl runs
--set sets it back.

With --on-wanted USR1 the COMMAND gets that signal, once, when somebody else waits for
the lock; with --shared, when somebody waits for it alone. It may go on, or save its
work and end. It gets the signal only once it handles it (Linux).

COMMAND has pawl's stdin, stdout, stderr and terminal. TERM, INT, HUP, QUIT, USR1, USR2
and WINCH are forwarded to it. A job that Ctrl-Z stops keeps its lock. The environment
of COMMAND has
  PAWL_LOCK      NAME; for several names PAWL_LOCKS instead, one a line
  PAWL_KEY       the lock's key in etcd; for several PAWL_KEYS instead, one a line
  PAWL_TOKEN     the fencing token, for storage that checks it
  PAWL_MODE      exclusive, shared or semaphore, for storage that checks tokens
  PAWL_SLOT      with --permits the slot, from 0: the token is for this slot only
  PAWL_LEASE     the lease, in hex
  PAWL_PROGRESS  with --stall the file to touch, each time that something is done
  PAWL_DEADLINE  the deadline of the lock when COMMAND starts (RFC 3339); pawl renews
                 the lease, so the actual deadline moves

With --stall 30s a COMMAND that can hang does not keep the lock: after each thing done
it touches a file (touch "$PAWL_PROGRESS"). If it has not for 30 s, it gets TERM, and
then KILL, as when the lock is lost, and the exit code is 120.

If the lock is lost, or renewals have failed for so long that less than --grace is left,
COMMAND and all processes that it started get TERM, then KILL, and are dead before the
deadline. The same happens if pawl is killed. If COMMAND ends by itself, processes that
it leaves in the background continue without the lock.

` + cli.ExitHelp,
		Example: `  pawl lock backup -- ./backup.sh
  pawl lock -n -E 0 hourly -- ./report.sh      # skip if it is running elsewhere
  pawl lock --wait 30 deploy -- make deploy
  pawl lock --shared catalogue -- ./export.sh  # together with other readers
  pawl lock --once now/1h report -- ./hourly.sh  # for each hour, on one machine of all
  pawl lock account/3 account/7 -- ./transfer  # both, or neither
  pawl lock --permits 4 gpus -- sh -c 'CUDA_VISIBLE_DEVICES=$PAWL_SLOT ./train'`,
		Args: o.names,
		RunE: func(cmd *cobra.Command, args []string) error {
			names := cli.BeforeDash(cmd, args)
			return o.run(cmd, names, args[len(names):])
		},
	}
	cmd.SetFlagErrorFunc(cli.FlagErrors(1))
	fs := cmd.Flags()
	o.Connection.Flags(fs)
	o.AcquireFlags(fs)
	o.commonOptions.flags(fs, &o.Connection)
	o.waiting.flags(fs, "the lock")
	fs.IntVar(&o.pid, "pid", 0, "without a COMMAND: release the lock, or stop waiting, when process PID ends; ignore INT, HUP and QUIT; send TERM to PID when the lock is lost")
	fs.BoolVar(&o.etcd, "etcd-layout", false, "use NAME verbatim, so that etcdctl lock and clientv3's concurrency.Mutex are excluded too")
	fs.BoolVar(&o.shared, "shared", false, "hold it together with other shared holders")
	fs.IntVar(&o.permits, "permits", noPermits, "hold one of this many slots of a semaphore, at most 1000")
	fs.Var(&o.once, "once", "run COMMAND only if no run for this time, or a later one, is recorded, and record it if COMMAND succeeds; RFC 3339, or now rounded down in UTC: now/5m, now/1h, now/1d")
	fs.BoolVar(&o.recordFirst, "at-most-once", false, "with --once, record the run before COMMAND starts: one that fails, or whose machine dies, is not repeated")
	fs.Var(&o.atLeast, "at-least", "hold the lock for at least this long: if COMMAND ends earlier, pawl waits for the rest, or for a signal")
	fs.Var(&o.maxHold, "max-hold", "hold the lock for at most this long: COMMAND is ended before that, and the exit code is 121")
	fs.Var(&o.wanted, "on-wanted", "send COMMAND this signal, like USR1, once somebody waits for the lock")
	cli.CompletesAllNames(cmd, &o.Connection)
	return cmd
}

// names are one word before the "--", or any number of words with a COMMAND or --pid. Without
// those, a second word may be a COMMAND whose "--" was forgotten.
func (o *lockOptions) names(cmd *cobra.Command, args []string) error {
	n := len(cli.BeforeDash(cmd, args))
	if n > 1 && n == len(args) && cmd.ArgsLenAtDash() < 0 && o.pid == 0 {
		words := make([]string, n-1)
		for i, word := range args[1:] {
			words[i] = cli.ShellWord(word)
		}
		return cli.Usage("%s: %q is one too many after NAME; a command goes after --: %[1]s %[3]s -- %[4]s", cmd.CommandPath(), args[1], cli.ShellWord(args[0]), strings.Join(words, " "))
	}
	return cli.Words(max(1, n), "NAME")(cmd, args)
}

// run is pawl lock.
func (o *lockOptions) run(cmd *cobra.Command, names, argv []string) error {
	opts, err := o.session()
	if err != nil {
		return err
	}
	if err := o.check(names); err != nil {
		return err
	}
	if err := cmp.Or(o.waiting.check(), o.checkOnce(names, argv), o.checkWanted(argv), o.checkStall(argv), checkReclaim(&o.Connection, argv, o.atLeast > 0)); err != nil {
		return err
	}
	if o.pid != 0 {
		if len(argv) > 0 {
			return cli.Usage("--pid and a COMMAND exclude each other")
		}
		switch o.user, err = processOf(o.pid); {
		case o.pid < 0, errors.Is(err, unix.ESRCH), errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOENT): // the last two, of a thread
			return cli.Usage("--pid: there is no process %d", o.pid)
		case err != nil:
			return cli.Usage("--pid %d: %w", o.pid, err)
		}
	}
	program, err := lookPath(argv)
	if err != nil {
		return err
	}
	if len(argv) == 0 {
		return o.hold(cmd, names, opts, nil)
	}
	c := &supervise.Command{Argv: argv, Path: program, Warn: warn}
	return o.guarded(c, func() error { return o.hold(cmd, names, opts, c) }, func(end supervise.End) {
		if o.atLeast == 0 { // or the lease keeps the lock for as long as it lasts
			o.reclaim(&o.Connection, cmd.Flags(), end)
		}
	})
}
