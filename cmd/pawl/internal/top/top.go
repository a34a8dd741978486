package top

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gdamore/tcell/v3"
	"github.com/spf13/cobra"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-locks/pawl/cmd/pawl/internal/supervise"
	"github.com/pawl-locks/pawl/internal/backoff"
	"github.com/pawl-locks/pawl/internal/inspect"
)

type topOptions struct {
	cli.Connection
	sort    string
	reverse bool
}

func New() *cobra.Command {
	var o topOptions
	cmd := &cobra.Command{
		Use:   "top [PREFIX]",
		Short: "Show live who holds and who waits, in the terminal",
		Long: `Shows the locks and elections, or those whose names begin with PREFIX, live: who holds
each and for how long, how many wait, and the longest wait. Since its start it also
counts how often each was taken and lost, and its mean hold and wait. Names that nobody
holds any more stay, without a holder.

"≤" stands before the time of a hold that pawl top did not see begin: it is at most that
long.

Keys: n h w t a l sort by name, held, waiters, wait, taken, lost; r reverses the order;
b shows only names that somebody holds; / filters by name, holder and host, and every
word must match; arrows, PgUp, PgDn, Home and End select; Enter shows all about the
selected name, including its queue; Esc goes back, and from the list it exits, as q and
Ctrl-C do. The columns of names and holders are as wide as the terminal allows.

It needs a terminal; for pipes there are pawl watch and pawl ls. It writes nothing and
holds no lease.`,
		Example: `  pawl top
  pawl top --sort waiters reports/`,
		Args: cli.UpTo(1, "PREFIX"),
		RunE: func(cmd *cobra.Command, args []string) error {
			by, ok := orderNamed(o.sort)
			if !ok {
				return cli.Usage("--sort is %q, want one of %s", o.sort, strings.Join(orders, ", "))
			}
			if !cli.IsTerminal(os.Stdin) || !cli.IsTerminal(os.Stdout) {
				return cli.Usage("pawl top needs a terminal on stdin and stdout; pawl watch and pawl ls do not")
			}
			return o.run(cmd, by, cli.PrefixOf(args))
		},
	}
	o.Connection.Flags(cmd.Flags())
	cmd.Flags().StringVar(&o.sort, "sort", "name", "column to sort by: "+strings.Join(orders, ", "))
	cmd.Flags().BoolVar(&o.reverse, "reverse", false, "reverse the order")
	_ = cmd.RegisterFlagCompletionFunc("sort", cobra.FixedCompletions(orders, cobra.ShellCompDirectiveNoFileComp)) // fails only for an unknown flag
	cli.CompletesNames(cmd, &o.Connection)
	return cmd
}

func (o *topOptions) run(cmd *cobra.Command, by order, prefix string) error {
	l := cli.Reader{Connection: o.Connection}
	err := l.With(cmd, func(ctx context.Context, c *pawl.Client) error {
		f, err := inspect.Follow(ctx, c, inspect.Scope{Prefix: prefix})
		if err != nil {
			return err
		}
		defer f.Close()
		b := newBoard(by)
		b.down = o.reverse
		b.take(f.Snapshot(), nil)
		return b.show(ctx, c, f)
	})
	var sig *supervise.Interrupted
	if errors.As(err, &sig) {
		return nil
	}
	return err
}

// followed is what the follower reported.
type followed struct {
	snapshot *inspect.Snapshot
	events   []inspect.Event
	err      error
}

// leaseAnswer is the answer about the holders' leases.
type leaseAnswer struct {
	leases map[int64]inspect.Lease
	err    error
}

// queryEvery is how often the leases are queried, and the screen drawn at least.
const (
	queryEvery = 2 * time.Second
	drawEvery  = time.Second
)

// show shows the board until a key or ctx ends it.
func (b *board) show(ctx context.Context, c *pawl.Client, f *inspect.Follower) error {
	screen, err := tcell.NewScreen()
	if err == nil {
		err = screen.Init()
	}
	if err != nil {
		return fmt.Errorf("the terminal: %w", err)
	}
	defer screen.Fini()
	v := &viewer{board: b, screen: screen}
	v.draw(time.Now())
	ctx, cancel := context.WithCancel(ctx)
	news, leases := make(chan followed), make(chan leaseAnswer)
	ended := make(chan struct{}, 2)
	defer func() { cancel(); <-ended; <-ended }()
	go func() { receive(ctx, f, news); ended <- struct{}{} }()                 // returns when ctx ends; awaited above
	go func() { queryLeases(ctx, c, &b.shown, leases); ended <- struct{}{} }() // the same
	return b.loop(ctx, v, news, leases)
}

// pace is the least time from one snapshot to the next. A snapshot costs as much as there are keys.
const pace = 100 * time.Millisecond

// A follower is an inspect.Follower.
type follower interface {
	Next(ctx context.Context) ([]inspect.Event, error)
	Snapshot() *inspect.Snapshot
}

// receive passes on what the follower reports. Changes that arrive together are passed on together.
func receive(ctx context.Context, f follower, news chan<- followed) {
	for {
		events, err := f.Next(ctx)
		select {
		case news <- followed{f.Snapshot(), events, err}:
		case <-ctx.Done():
			return
		}
		if err != nil || !backoff.Sleep(ctx, pace) {
			return
		}
	}
}

// queryLeases queries the leases of the holders that are shown, periodically.
func queryLeases(ctx context.Context, c *pawl.Client, shown *atomic.Pointer[[]int64], leases chan<- leaseAnswer) {
	for {
		ids := *shown.Load() // not nil, because the board was drawn before
		within, cancel := context.WithTimeout(ctx, 2*queryEvery)
		got, err := inspect.Leases(within, c, ids...)
		cancel()
		select {
		case leases <- leaseAnswer{got, err}:
		case <-ctx.Done():
			return
		}
		select {
		case <-time.After(queryEvery):
		case <-ctx.Done():
			return
		}
	}
}

// loop draws at each change, each key and each second.
func (b *board) loop(ctx context.Context, v *viewer, news <-chan followed, leases <-chan leaseAnswer) error {
	tick := time.NewTicker(drawEvery)
	defer tick.Stop()
	for {
		v.draw(time.Now())
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		case n := <-news:
			if n.err != nil {
				return n.err
			}
			b.take(n.snapshot, n.events)
		case a := <-leases:
			if b.leases, v.status = a.leases, ""; a.err != nil {
				v.status = "  THE CLUSTER DOES NOT ANSWER"
			}
		case ev := <-v.screen.EventQ():
			switch ev := ev.(type) {
			case *tcell.EventKey:
				if v.key(ev) {
					return nil
				}
			case *tcell.EventResize:
				v.screen.Sync()
			}
		}
	}
}
