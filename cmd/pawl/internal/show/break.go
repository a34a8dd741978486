package show

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/inspect"
)

type breakOptions struct {
	cli.Reader
	yes   bool
	token int64
	slot  int // of a semaphore; below 0 if not given
}

func NewBreak() *cobra.Command {
	var o breakOptions
	cmd := &cobra.Command{
		Use:   "break NAME",
		Short: "Take a lock or a term from its holder",
		Long: `Deletes the key of the present holder of the lock or election NAME, and prints whom it
evicted. It asks first, unless --yes is given; --yes is required without a terminal.

The holder sees the loss through its watch of the key, usually within milliseconds. If
it is stopped or cut off, it sees it when that ends, and works on until then. Only
storage that checks the token refuses what it still writes. So break a lock if its
holder is dead or does not matter. If the holder is merely slow, end the process:
pawl show says where it runs.

Only the holder that was shown is evicted: its key is deleted if it still has its
create revision, and nothing else is changed. The next in the queue acquires the lock
at once. As always, its token is greater than the evicted one: a token is the revision
at which the holder's key was put, and the keys of waiters were put later.

If a shared lock or a semaphore has several holders, or a lock and a semaphore have the
same name, --token or --slot selects one of them. Without these flags break lists the
holders and does nothing. A holder of several names at once loses all of them; the
other names stay taken until it has seen the loss.

break works for locks, elections, etcd's layout, and foreign keys that block a name. It
needs readwrite permission on the name's keys. With readwrite on <namespace>//pawl/ it
also leaves a mark on the evicted lease, so that pawl watch can report "broken" and by
whom. The exit code is 125 if there is nobody to evict.`,
		Example: `  pawl break backup
  pawl break --yes --token 57 backup     # only if it still holds
  pawl break --slot 2 gpu                # the holder of this slot of a semaphore`,
		Args: cli.OneName,
		RunE: func(cmd *cobra.Command, args []string) error {
			scope, err := o.Scope(args[0])
			if err != nil {
				return err
			}
			if cmd.Flags().Changed("token") && o.token <= 0 { // 0 is what scripts read where nobody holds
				return cli.Usage("--token is %d, want a token as pawl show says it", o.token)
			}
			switch given := cmd.Flags().Changed("slot"); {
			case given && o.token != 0:
				return cli.Usage("of --token and --slot, give one")
			case given && o.slot < 0:
				return cli.Usage("--slot is %d, want a slot as pawl show says it", o.slot)
			case given && scope.EtcdLayout:
				return cli.Usage("--slot and --etcd-layout exclude each other: semaphores are in pawl's layout alone")
			}
			if o.slot >= 0 {
				scope.Only = inspect.KindSemaphore
			}
			if !o.yes && !cli.IsTerminal(os.Stdin) {
				return cli.Usage("pawl break asks first, and stdin is no terminal: say --yes")
			}
			return o.With(cmd, func(ctx context.Context, c *pawl.Client) error { return o.breakIt(ctx, cmd, c, scope) })
		},
	}
	o.Flags(cmd, "eviction")
	o.NameFlags(cmd)
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "do not ask")
	cmd.Flags().Int64Var(&o.token, "token", 0, "only the holder with this token")
	cmd.Flags().IntVar(&o.slot, "slot", -1, "only the holder of this slot of a semaphore")
	return cmd
}

func (o *breakOptions) breakIt(ctx context.Context, cmd *cobra.Command, c *pawl.Client, scope inspect.Scope) error {
	v, err := read(ctx, c, scope, inspect.NamedQueue.Holders)
	if err != nil {
		return err
	}
	l, i, err := o.pickAmong(v.Queues)
	if err != nil {
		v.list(cmd.ErrOrStderr(), v.Queues)
		return fmt.Errorf("break %q: %w: nothing was done", scope.Name, err)
	}
	p := l.Queue[i]
	if !o.yes {
		if err := o.confirm(ctx, cmd, v, l, p); err != nil {
			return err
		}
	}
	err = inspect.Evict(ctx, c, p, cli.Evictor())
	if errors.Is(err, inspect.ErrGone) {
		return fmt.Errorf("break %q: %s with token %d is not there any more: nothing was done", scope.Name, cli.Plain(cli.Who(p)), p.Token)
	}
	if err != nil {
		return err
	}
	if scope.Only = inspect.KindLock; l.Semaphore {
		scope.Only = inspect.KindSemaphore
	}
	return o.report(ctx, cmd, c, scope, v, l, i)
}

// pickAmong returns the holder that the options select in one of the queues of a name: that of a
// lock or an election, and that of a semaphore.
func (o *breakOptions) pickAmong(all []inspect.NamedQueue) (l inspect.NamedQueue, i int, err error) {
	held := slices.DeleteFunc(slices.Clone(all), func(l inspect.NamedQueue) bool { return len(l.Holders()) == 0 })
	if len(held) > 1 && o.token == 0 {
		return l, 0, errors.New("a semaphore and a lock or an election have this name: say whose holder, with --token or --slot")
	}
	for _, l = range held {
		if i, err = o.pick(l); err == nil {
			return l, i, nil
		}
	}
	if len(held) == 0 {
		i, err = o.pick(l)
	}
	return l, i, err
}

// pick returns the holder that the options select.
func (o *breakOptions) pick(l inspect.NamedQueue) (i int, err error) {
	holders := l.Holders()
	i = slices.IndexFunc(holders, func(p inspect.Position) bool {
		return (o.token == 0 || p.Token == fencing.Token(o.token)) && (o.slot < 0 || p.HasSlot() && p.Slot == o.slot)
	})
	switch {
	case len(holders) == 0 && o.slot < 0:
		return 0, errors.New("nobody holds it")
	case i >= 0 && o.token == 0 && o.slot < 0 && len(holders) > 1:
		return 0, fmt.Errorf("%d hold it: say which, with --token or --slot", len(holders))
	case i >= 0:
		return i, nil
	case o.slot >= 0:
		return 0, fmt.Errorf("nobody holds its slot %d", o.slot)
	case len(holders) == 1:
		return 0, fmt.Errorf("its holder's token is %d, not %d", holders[0].Token, o.token)
	default:
		return 0, fmt.Errorf("none of its %d holders has token %d", len(holders), o.token)
	}
}

// list prints who holds the queues of a name, if there are several.
func (v *view) list(out io.Writer, queues []inspect.NamedQueue) {
	var holders []inspect.Position
	for _, l := range queues {
		holders = append(holders, l.Holders()...)
	}
	if len(holders) < 2 {
		return
	}
	t := cli.NewTable(out, "HOLDER", "SLOT", "TOKEN", "AGE", "TTL LEFT")
	for _, p := range holders {
		slot := "-"
		if p.HasSlot() {
			slot = strconv.Itoa(p.Slot)
		}
		t.Row(cli.Who(p), slot, cli.Token(p), cli.Age(p, v.now), cli.Left(v.leases, p))
	}
	_ = t.Write() // to stderr
}

// confirm asks the user on the terminal about p, a holder, and returns nil for a yes.
func (o *breakOptions) confirm(ctx context.Context, cmd *cobra.Command, v *view, l inspect.NamedQueue, p inspect.Position) error {
	next := "nobody waits"
	if w := l.Waiters(); len(w) > 0 {
		next = fmt.Sprintf("%d wait, next is %s", len(w), cli.Plain(cli.Who(w[0])))
	}
	slot := ""
	if p.HasSlot() {
		slot = fmt.Sprintf("slot %d, ", p.Slot)
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s %q is held by %s%s, %stoken %d, age %s, lease left %s; %s.\nIt may continue to work until it sees the loss. Evict it? [y/N] ",
		l.Kind(), l.Name, cli.Plain(cli.Who(p)), cli.With(l.Name, p), slot, p.Token, cli.Age(p, v.now), cli.Left(v.leases, p), next)
	answered := make(chan string, 1)
	go func() { // returns at the answer, or ends with the process
		line, _ := bufio.NewReader(cmd.InOrStdin()).ReadString('\n')
		answered <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case a := <-answered:
		if a == "y" || a == "yes" {
			return nil
		}
		return errors.New("nothing was done")
	case <-ctx.Done():
		fmt.Fprintln(cmd.ErrOrStderr())
		return context.Cause(ctx)
	}
}

// An eviction is a line of JSON.
type eviction struct {
	Event   string    `json:"event"` // "evicted"
	Evicted position  `json:"evicted"`
	Holder  *position `json:"holder"`          // now, the first of several; null if nobody, or not known
	Failure string    `json:"error,omitempty"` // why it is not known
	Time    time.Time `json:"time"`
}

// report prints that the i-th position of l, the queue as it was, was evicted, and who holds now.
func (o *breakOptions) report(ctx context.Context, cmd *cobra.Command, c *pawl.Client, scope inspect.Scope, before *view, l inspect.NamedQueue, i int) error {
	out := cmd.OutOrStdout()
	p := l.Queue[i]
	now, err := inspect.Read(ctx, c, scope)
	if o.JSON {
		return o.reportJSON(out, before.position(l, i), now, err)
	}
	fmt.Fprintf(out, "evicted %s from %s %q: token=%d key=%s", cli.Plain(cli.Who(p)), l.Kind(), scope.Name, p.Token, cli.Plain(p.Key))
	if p.Host != "" {
		fmt.Fprintf(out, " host=%s pid=%d", cli.Plain(p.Host), p.PID)
	}
	if p.Lease != 0 {
		fmt.Fprintf(out, " lease=%s", cli.LeaseHex(p.Lease))
	}
	fmt.Fprintln(out)
	switch {
	case err != nil:
		return fmt.Errorf("who holds it now is not known: %w", err)
	case len(now.Queues) == 0 || len(now.Queues[0].Holders()) == 0:
		fmt.Fprintf(out, "nobody holds it now\n")
	case len(now.Queues[0].Holders()) > 1:
		fmt.Fprintf(out, "%s hold it now\n", cli.Holding(now.Queues[0]))
	default:
		n := now.Queues[0].Queue[0]
		fmt.Fprintf(out, "%s holds it now, with token %d\n", cli.Plain(cli.Who(n)), n.Token)
	}
	return nil
}

func (o *breakOptions) reportJSON(out io.Writer, evicted position, now *inspect.Snapshot, err error) error {
	e := eviction{Event: "evicted", Evicted: evicted, Time: time.Now()}
	if now != nil && len(now.Queues) > 0 && len(now.Queues[0].Holders()) > 0 {
		h := (&view{Snapshot: now}).position(now.Queues[0], 0)
		e.Holder = &h
	}
	if err != nil {
		err = fmt.Errorf("who holds it now is not known: %w", err)
		e.Failure = err.Error()
	}
	return errors.Join(cli.Written(cli.JSONLine(out, e)), err)
}
