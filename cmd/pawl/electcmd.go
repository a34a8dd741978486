package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-locks/pawl/cmd/pawl/internal/supervise"
	"github.com/pawl-locks/pawl/elect"
	"github.com/pawl-locks/pawl/internal/inspect"
	"github.com/pawl-locks/pawl/lease"
)

type electOptions struct {
	cli.Connection
	tenure
	waiting
	etcd bool
}

func newElect() *cobra.Command {
	var o electOptions
	cmd := &cobra.Command{
		Use:   "elect NAME VALUE [-- COMMAND…]",
		Short: "Lead an election, and run a command while leading",
		Long: `Campaigns for the leadership of NAME with VALUE, which observers see, and leads: until
a signal, or, with a COMMAND, for as long as that runs. When the term is lost, it
campaigns again, and runs COMMAND again at each new term. When COMMAND ends by itself
during a term, pawl resigns and exits with its code.

COMMAND runs as under pawl lock: the same stdin, stdout, stderr, signals, environment
(PAWL_LOCK is NAME) and end: it is dead, with all that it started, before its term's
deadline.

` + cli.ExitHelp,
		Example: `  pawl elect scheduler "$(hostname)" -- ./scheduler
  pawl observe scheduler`,
		Args: cli.Words(2, "NAME VALUE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd, args[0], args[1], args[2:])
		},
	}
	fs := cmd.Flags()
	o.Connection.Flags(fs)
	o.tenure.flags(fs)
	o.waiting.flags(fs, "the first term")
	fs.BoolVar(&o.etcd, "etcd-layout", false, "take NAME verbatim, to share the election with etcdctl elect and clientv3's concurrency.Election")
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
	if err := o.waiting.check(); err != nil {
		return err
	}
	program, err := find(argv)
	if err != nil {
		return err
	}
	if len(argv) == 0 {
		return o.campaign(cmd, name, value, opts, nil)
	}
	c := &supervise.Command{Argv: argv, Path: program, Warn: warn, Grace: o.graceOf(cmp.Or(opts.TTL, lease.DefaultTTL))}
	return guarded(c, func() error { return o.campaign(cmd, name, value, opts, c) })
}

// campaign leads until a signal, or, with a command, until that ends by itself.
func (o *electOptions) campaign(cmd *cobra.Command, name, value string, opts lease.Options, command *supervise.Command) error {
	sigs := signalsOf(command)
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	c := candidate{
		name: name, value: value, opts: opts, etcd: o.etcd, say: o.reporter(cmd, command != nil, o.Verbose),
		command: command, sigs: sigs, cancel: cancel, rest: sigs.Listen(cancel),
	}
	defer func() { c.rest() }()
	client, closed, err := o.Open(ctx, cmd.Flags())
	if err != nil {
		return err
	}
	defer func() {
		if cerr := closed(); cerr != nil {
			cli.Complain(cerr)
		}
	}()
	c.look = func(ctx context.Context) standing {
		ctx, cancel := context.WithTimeout(ctx, o.DialTimeout)
		defer cancel()
		return standingOf(ctx, client, inspect.Scope{Name: name, EtcdLayout: o.etcd}, ofThisProcess)
	}
	if o.nonblock {
		if q := c.look(ctx); q.holder != "" {
			return o.refusal(name, q)
		}
		o.wait = seconds(atOnce)
	}
	if o.wait > 0 {
		c.limit = time.AfterFunc(time.Duration(o.wait), func() { cancel(errWaited) })
		defer c.limit.Stop()
	}
	stop := o.say(ctx, name, c.say, o.Verbose, c.look)
	c.first = sync.OnceFunc(stop)
	defer c.first()
	err = c.run(ctx, client)
	if context.Cause(ctx) == errWaited {
		return o.refusal(name, c.look(context.Background()))
	}
	return err
}

// atOnce is how long a candidate with -n may take to win an election that was nobody's.
const atOnce = 2 * time.Second

// candidate is pawl elect under way. Its methods are called from one goroutine.
type candidate struct {
	name, value string
	opts        lease.Options
	etcd        bool
	say         reporter
	command     *supervise.Command // nil: none
	sigs        *supervise.Signals
	cancel      context.CancelCauseFunc
	rest        func() // ends the listening for deadly signals
	terms       int64
	look        func(context.Context) standing
	limit       *time.Timer // ends the wait for the first term; nil: nothing does
	first       func()      // is called at the first term
	led         bool        // a signal ended a term, which is how one without a command ends
}

// run campaigns and leads until a signal, or the command's own end.
func (c *candidate) run(ctx context.Context, client *pawl.Client) error {
	opts := elect.RunOptions{EtcdLayout: c.etcd, Value: []byte(c.value), Session: c.opts, Notify: c.notify}
	for {
		err := elect.Run(ctx, client, c.name, opts, c.lead)
		sig := signalIn(ctx)
		switch {
		case sig != nil && c.led:
			return nil
		case sig != nil:
			return cut(sig)
		case cli.WasEnded(err): // running out: the command was ended, the term given back
			continue
		}
		return cli.Reach(err)
	}
}

// lead is one term.
func (c *candidate) lead(ctx context.Context, t *elect.Term) error {
	if c.limit != nil && !c.limit.Stop() && c.terms == 0 {
		return nil // it came too late: --wait has ended
	}
	c.first()
	c.terms++
	till, id := t.Deadline(), leaseOf(t.Key())
	c.say.say(notice{
		Event: "elected", Name: c.name, Key: t.Key(), Token: t.Token(), Term: c.terms, Value: c.value,
		Lease: id, TTL: cmp.Or(c.opts.TTL, lease.DefaultTTL).Seconds(), Deadline: &till,
	})
	if c.command == nil {
		<-ctx.Done() // a signal, or the loss
		c.led = t.Err() == nil
		return nil
	}
	c.rest() // signals are the command's now
	defer func() { c.rest = c.sigs.Listen(c.cancel) }()
	var told syscall.Signal
	c.command.Env = environ(c.name, t, id)
	c.command.Heard = func(sig supervise.Signal) {
		if sig.Deadly() && sig.Number != unix.SIGHUP { // which means "read your configuration" to many
			told = sig.Number
		}
	}
	err := commandEnd(c.command.Run(t))
	if told != 0 && cli.WasEnded(err) {
		c.cancel(&supervise.Interrupted{Signal: told}) // it was asked to end: no further term
	}
	return err
}

func (c *candidate) notify(ev elect.Event) {
	n := notice{Event: ev.Kind.String(), Name: c.name, Token: ev.Token, Term: c.terms, Time: time.Now()}
	if ev.Err != nil {
		n.Cause = ev.Err.Error()
	}
	switch {
	case ev.Kind == elect.Elected: // lead says it, with more
	case ev.Kind == elect.Retrying && !c.say.json:
		fmt.Fprintf(os.Stderr, "pawl: %s\n", n.text())
	default:
		c.say.say(n)
	}
}

// leaseOf is the lease in a key of ours: "…/<lease in hex>-<n>", and in etcd's
// layout without n.
func leaseOf(key string) string {
	id, _, _ := strings.Cut(key[strings.LastIndexByte(key, '/')+1:], "-")
	return id
}
