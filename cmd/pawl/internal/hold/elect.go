package hold

import (
	"cmp"
	"context"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-locks/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-locks/pawl/cmd/pawl/internal/supervise"
	"github.com/pawl-locks/pawl/internal/backoff"
	"github.com/pawl-locks/pawl/lease"
)

type electOptions struct {
	cli.Connection
	commonOptions
	waiting
	etcd bool
}

// NewElect makes pawl elect.
func NewElect() *cobra.Command {
	var o electOptions
	cmd := &cobra.Command{
		Use:   "elect NAME VALUE [-- COMMAND…]",
		Short: "Lead an election, and run a command while leading",
		Long: `Campaigns for the leadership of NAME with VALUE, which observers see. Then it leads
until a signal or, with a COMMAND, as long as that runs. If the term is lost, it
campaigns again, and runs COMMAND again in each new term. If COMMAND ends by itself
during a term, pawl resigns and exits with its code.

COMMAND runs as under pawl lock, with the same stdin, stdout, stderr, signals and
environment (PAWL_LOCK is NAME). It is dead before the deadline of its term, and so are
all processes that it started.

With --stall 30s a leader that hangs is replaced: COMMAND touches a file after each
thing done (touch "$PAWL_PROGRESS"). If it has not for 30 s, it is ended, and pawl gives
up the term. It campaigns again after 10 s, and after twice as long each time, up to
10 min.

` + cli.ExitHelp,
		Example: `  pawl elect scheduler "$(hostname)" -- ./scheduler
  pawl observe scheduler`,
		Args: cli.Words(2, "NAME VALUE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd, args[0], args[1], args[2:])
		},
	}
	cmd.SetFlagErrorFunc(cli.FlagErrors(2))
	fs := cmd.Flags()
	o.Connection.Flags(fs)
	o.AcquireFlags(fs)
	o.commonOptions.flags(fs, &o.Connection)
	o.waiting.flags(fs, "the first term")
	fs.BoolVar(&o.etcd, "etcd-layout", false, "use NAME verbatim, to share the election with etcdctl elect and clientv3's concurrency.Election")
	cli.CompletesNames(cmd, &o.Connection)
	return cmd
}

func (o *electOptions) run(cmd *cobra.Command, name, value string, argv []string) error {
	opts, err := o.session()
	if err != nil {
		return err
	}
	if err := cli.CheckName(name, o.etcd); err != nil {
		return err
	}
	if err := cmp.Or(o.waiting.check(), o.checkStall(argv), checkReclaim(&o.Connection, argv, false)); err != nil {
		return err
	}
	program, err := lookPath(argv)
	if err != nil {
		return err
	}
	if len(argv) == 0 {
		return o.campaign(cmd, name, value, opts, nil)
	}
	c := &supervise.Command{Argv: argv, Path: program, Warn: warn, Grace: o.graceOf(cmp.Or(opts.TTL, lease.DefaultTTL))}
	return o.guarded(c, func() error { return o.campaign(cmd, name, value, opts, c) }, func(end supervise.End) {
		o.reclaim(&o.Connection, cmd.Flags(), end)
	})
}

// campaign leads until a signal, or, with a command, until the command ends.
func (o *electOptions) campaign(cmd *cobra.Command, name, value string, opts lease.Options, command *supervise.Command) error {
	sigs := signalsOf(command)
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	c := candidate{
		o: o, name: name, value: value, opts: opts, say: o.reporter(cmd, command != nil, o.Verbose),
		command: command, sigs: sigs, cancel: cancel, rest: sigs.Listen(cancel),
		pause: backoff.Backoff{First: firstRest, Most: mostRest},
	}
	defer func() { c.rest() }()
	client, closed, err := open(ctx, &o.Connection, cmd.Flags())
	if err != nil {
		return err
	}
	defer func() {
		if cerr := closed(); cerr != nil {
			cli.Complain(cerr)
		}
	}()
	c.client = client
	if o.nonblock {
		return c.tryAndRun(ctx)
	}
	if o.wait > 0 {
		c.limit = time.AfterFunc(time.Duration(o.wait), func() { cancel(errWaited) })
		defer c.limit.Stop()
	}
	c.waited = sync.OnceFunc(o.reportWait(ctx, c.say, o.Watched(os.Stderr), c.blocker))
	defer c.waited()
	err = c.run(ctx)
	if context.Cause(ctx) == errWaited {
		b := c.blocker(context.Background())
		b.failed = c.failed
		return o.refusal(c.say, o.Verbose, b)
	}
	return err
}
