package hold

import (
	"github.com/spf13/cobra"

	"github.com/pawl-locks/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-locks/pawl/cmd/pawl/internal/supervise"
)

type lockOptions struct {
	cli.Connection
	tenure
	waiting
	etcd    bool
	shared  bool
	permits int      // slots of the semaphore; noPermits: not a semaphore
	pid     int      // hold it only until this process ends; 0: no process
	user    *process // the process with number pid
}

// noPermits is the value of --permits if it was not given.
const noPermits = -1

// NewLock makes pawl lock.
func NewLock() *cobra.Command {
	var o lockOptions
	cmd := &cobra.Command{
		Use:   "lock NAME… [-- COMMAND…]",
		Short: "Hold a lock, or run a command while holding it",
		Long: `Waits for the lock NAME, first come, first served, and holds it: until a signal,
or, with a COMMAND, for as long as that runs. Without a COMMAND it says on stdout
when it holds the lock, with key, token and deadline, and exits 121 when it is lost.

With --shared it holds NAME together with others that share it, and never while
somebody holds it alone: readers and writers, in one queue. With --permits N it holds
one of N numbered slots of the semaphore NAME, so that N at the most hold it at once;
all give the same N. Several NAMEs, 32 at the
most, are locked at once, all or none, so that two such commands never wait for each
other, whatever the order of their names; take no other lock meanwhile. They want a
COMMAND, or --pid.

COMMAND has pawl's stdin, stdout, stderr and terminal, and is sent TERM, INT, HUP, QUIT,
USR1, USR2 and WINCH. A job that Ctrl-Z stops keeps its lock. COMMAND finds in its
environment
  PAWL_LOCK      NAME; of several instead PAWL_LOCKS, a line each
  PAWL_KEY       the lock's key in etcd; of several instead PAWL_KEYS, a line each
  PAWL_TOKEN     the fencing token: give it to storage that checks it
  PAWL_MODE      exclusive, shared, or semaphore: storage has to know which a token is
  PAWL_SLOT      with --permits the slot, from 0: the token is of this slot alone
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
  pawl lock --wait 30 deploy -- make deploy
  pawl lock --shared catalogue -- ./export.sh  # beside others that read
  pawl lock account/3 account/7 -- ./transfer  # both, or neither
  pawl lock --permits 4 gpus -- sh -c 'CUDA_VISIBLE_DEVICES=$PAWL_SLOT ./train'`,
		Args: o.names,
		RunE: func(cmd *cobra.Command, args []string) error {
			names := cli.BeforeDash(cmd, args)
			return o.run(cmd, names, args[len(names):])
		},
	}
	fs := cmd.Flags()
	o.Connection.Flags(fs)
	o.tenure.flags(fs)
	o.waiting.flags(fs, "the lock")
	fs.IntVar(&o.pid, "pid", 0, "without a COMMAND: give the lock back, or stop waiting, when process PID ends, and not at INT, HUP and QUIT; it gets TERM when the lock is lost")
	fs.BoolVar(&o.etcd, "etcd-layout", false, "take NAME verbatim, to exclude etcdctl lock and clientv3's concurrency.Mutex too")
	fs.BoolVar(&o.shared, "shared", false, "hold it together with others that share it")
	fs.IntVar(&o.permits, "permits", noPermits, "hold one of this many slots of a semaphore, at most 1000")
	cli.CompletesAllNames(cmd, &o.Connection)
	return cmd
}

// names are one word before the "--" or, with a COMMAND or --pid, any number of words. Without
// those, a second word may be a COMMAND whose "--" was forgotten.
func (o *lockOptions) names(cmd *cobra.Command, args []string) error {
	n := len(cli.BeforeDash(cmd, args))
	if n > 1 && n == len(args) && cmd.ArgsLenAtDash() < 0 && o.pid == 0 {
		return cli.Usage("%s: %q is one too many after NAME; a command goes after --, and several names want one, or --pid", cmd.CommandPath(), args[1])
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
	if err := o.waiting.check(); err != nil {
		return err
	}
	if o.pid != 0 {
		if len(argv) > 0 {
			return cli.Usage("--pid and a COMMAND exclude each other")
		}
		if o.user, err = processOf(o.pid); o.pid < 0 || err != nil {
			return cli.Usage("--pid: there is no process %d", o.pid)
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
	return guarded(c, func() error { return o.hold(cmd, names, opts, c) })
}
