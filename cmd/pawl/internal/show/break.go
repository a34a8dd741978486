package show

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
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
}

func NewBreak() *cobra.Command {
	var o breakOptions
	cmd := &cobra.Command{
		Use:   "break NAME",
		Short: "Take a lock or a term from its holder",
		Long: `Ends the present holder's key of the lock or election NAME, and says whom it evicted.
It asks first; --yes does not. Without a terminal to ask on, --yes is required.

The holder learns of it from its watch of the key, mostly within milliseconds; if it
is stopped or cut off, when it comes back. Until then it goes on working: what it
still writes, only storage that checks the token refuses. So break a lock whose
holder is dead or does not matter; one that is merely slow, ask to end (pawl show
says where it runs).

Exactly the holder that was shown is evicted: its key is deleted if it still has its
create revision, and nothing else is touched. The next in the queue follows at once. Its
token is greater than the evicted one's, as ever: it is the revision at which its
key was put, revisions only go up, and the keys behind the holder's were put after
it. Nothing that is deleted takes them back.

It works for locks, elections, etcd's layout, and foreign keys that block a name. It
needs readwrite on the name's keys; with readwrite on <namespace>//pawl/ too, it
leaves a mark, which goes with the evicted lease, so that pawl watch can say
"broken" and by whom. Nobody there to evict is exit code 125.`,
		Example: `  pawl break backup
  pawl break --yes --token 57 backup     # only if it is still that holder`,
		Args: cli.OneName,
		RunE: func(cmd *cobra.Command, args []string) error {
			scope, err := o.Scope(args[0])
			if err != nil {
				return err
			}
			if o.token < 0 {
				return cli.Usage("--token is %d, want a token as pawl show says it", o.token)
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
	return cmd
}

func (o *breakOptions) breakIt(ctx context.Context, cmd *cobra.Command, c *pawl.Client, scope inspect.Scope) error {
	v, err := read(ctx, c, scope, func(l inspect.NamedQueue) []inspect.Position { return l.Queue[:1] })
	if err != nil {
		return err
	}
	if len(v.Queues) == 0 {
		return fmt.Errorf("break %q: nobody holds it", scope.Name)
	}
	l := v.Queues[0]
	p := l.Queue[0]
	if o.token != 0 && fencing.Token(o.token) != p.Token {
		return fmt.Errorf("break %q: its holder's token is %d, not %d: nothing was done", scope.Name, p.Token, o.token)
	}
	if !o.yes {
		if err := o.confirm(ctx, cmd, v, l); err != nil {
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
	return o.report(ctx, cmd, c, scope, v)
}

// confirm asks on the terminal, and returns nil for a yes.
func (o *breakOptions) confirm(ctx context.Context, cmd *cobra.Command, v *view, l inspect.NamedQueue) error {
	p, next := l.Queue[0], "nobody waits"
	if n := len(l.Queue) - 1; n > 0 {
		next = fmt.Sprintf("%d wait, next is %s", n, cli.Plain(cli.Who(l.Queue[1])))
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s %q is held by %s, token %d, age %s, lease left %s; %s.\nIt may go on working until it learns of it. Evict it? [y/N] ",
		cli.KindOf(l.Election), l.Name, cli.Plain(cli.Who(p)), p.Token, cli.Age(p, v.now), cli.Left(v.leases, p), next)
	answered := make(chan string, 1)
	go func() { // ends with the answer, or with the process
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
	Event   string    `json:"event"` // evicted
	Evicted position  `json:"evicted"`
	Holder  *position `json:"holder"`          // now; null: nobody, or not known
	Failure string    `json:"error,omitempty"` // why it is not known
	Time    time.Time `json:"time"`
}

// report prints whom it evicted, and who holds now.
func (o *breakOptions) report(ctx context.Context, cmd *cobra.Command, c *pawl.Client, scope inspect.Scope, before *view) error {
	out := cmd.OutOrStdout()
	p := before.Queues[0].Queue[0]
	now, err := inspect.Read(ctx, c, scope)
	if o.JSON {
		return o.reportJSON(out, before, now, err)
	}
	fmt.Fprintf(out, "evicted %s from %s %q: token=%d key=%s", cli.Plain(cli.Who(p)), cli.KindOf(before.Queues[0].Election), scope.Name, p.Token, cli.Plain(p.Key))
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
	case len(now.Queues) == 0:
		fmt.Fprintf(out, "nobody holds it now\n")
	default:
		n := now.Queues[0].Queue[0]
		fmt.Fprintf(out, "%s holds it now, with token %d\n", cli.Plain(cli.Who(n)), n.Token)
	}
	return nil
}

func (o *breakOptions) reportJSON(out io.Writer, before *view, now *inspect.Snapshot, err error) error {
	e := eviction{Event: "evicted", Evicted: before.position(before.Queues[0], 0), Time: time.Now()}
	if now != nil && len(now.Queues) > 0 {
		h := (&view{Snapshot: now}).position(now.Queues[0], 0)
		e.Holder = &h
	}
	if err != nil {
		err = fmt.Errorf("who holds it now is not known: %w", err)
		e.Failure = err.Error()
	}
	return errors.Join(cli.Written(cli.JSONLine(out, e)), err)
}
