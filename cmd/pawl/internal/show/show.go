package show

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-locks/pawl/internal/inspect"
)

func NewShow() *cobra.Command {
	var o showOptions
	cmd := &cobra.Command{
		Use:   "show NAME",
		Short: "Show who holds a lock or leads, and who waits, in order",
		Long: `Shows who holds the lock NAME, or leads the election NAME, and who waits for it, in
the order in which they will be served. Each line has owner, host and pid, fencing
token, the age, the lease and how much of it is left, and the key. The age is how long
it has held or waited; of a holder that may have waited before, it is an upper bound.
Of a queue the first 100 are shown, and with --all or --json all of it. A shared
lock can have several holders, and a semaphore has one for each slot that is taken. A
waiter of a semaphore has no token yet. A holder of several names at once is shown with
its other names, and one with a Stall with that; no key shows whether it makes progress.

Tokens increase along the queue: each is the revision at which the key was put. A
foreign key is one that neither pawl nor clientv3 wrote; all keys behind it wait until
somebody deletes it. A lock and an election of the same name share a queue and exclude
each other; show reports that. A semaphore of the same name has a queue of its own,
which is shown after it.

For scripts, -q prints nothing. --holder prints only the value of the leader or the
owner of the lock, a line for each holder. Both exit with 0 if somebody holds NAME,
alone or shared, or one of its slots, even with a foreign key, and with 1 if nobody
does.

With --json each line is an object as in pawl ls, with a position: 0 for holders, and
from 1 for waiters.`,
		Example: `  pawl show backup
  pawl show --etcd-layout jobs/42      # the queue of etcdctl lock jobs/42
  pawl show -q backup && echo busy
  test "$(pawl show --holder scheduler)" = "$(hostname)" && echo "this machine leads"
  pawl show --json backup | jq -r 'select(.position == 0).owner'`,
		Args: cli.OneName,
		RunE: func(cmd *cobra.Command, args []string) error {
			scope, err := o.Scope(args[0])
			if err != nil {
				return err
			}
			if o.JSON && (o.quiet || o.holder) || o.quiet && o.holder {
				return cli.Usage("of -q, --holder and --json, give one")
			}
			if o.quiet || o.holder {
				return o.With(cmd, func(ctx context.Context, c *pawl.Client) error { return o.answer(ctx, cmd, c, scope) })
			}
			return o.With(cmd, func(ctx context.Context, c *pawl.Client) error { return o.show(ctx, cmd, c, scope) })
		},
	}
	o.Flags(cmd, "position in the queue")
	o.NameFlags(cmd)
	cmd.Flags().BoolVarP(&o.quiet, "quiet", "q", false, "print nothing: the exit code says whether somebody holds it")
	cmd.Flags().BoolVar(&o.all, "all", false, "show all of a long queue")
	cmd.Flags().BoolVar(&o.holder, "holder", false, "print the leader's value, or the owner of the lock, and nothing else")
	return cmd
}

type showOptions struct {
	cli.Reader
	quiet  bool
	holder bool
	all    bool
}

// answer is for scripts. The exit code says whether somebody holds, and the output who.
func (o *showOptions) answer(ctx context.Context, cmd *cobra.Command, c *pawl.Client, scope inspect.Scope) error {
	holders, err := o.holders(ctx, c, scope)
	switch {
	case err != nil:
		return err
	case len(holders) == 0:
		return cli.Exit(cli.ExitWrong, nil)
	case o.quiet:
		return nil
	}
	for _, p := range holders {
		fmt.Fprintln(cmd.OutOrStdout(), holderFor(p))
	}
	return nil
}

// holders reads who holds. The keys' names show how many there are. Unless nothing is printed of them, it
// reads again, as many keys whole, if there is more than one.
func (o *showOptions) holders(ctx context.Context, c *pawl.Client, scope inspect.Scope) (holders []inspect.Position, err error) {
	for scope.First = 1; ; scope.First = 2 * len(holders) { // others may come between two reads
		s, err := inspect.Read(ctx, c, scope)
		if err != nil {
			return nil, err
		}
		holders = nil
		for _, l := range s.Queues {
			holders = append(holders, l.Holders()...)
		}
		if len(holders) <= scope.First || o.quiet {
			return holders, nil
		}
	}
}

// holderFor is what --holder prints about a position.
func holderFor(p inspect.Position) string {
	who := p.Owner
	if p.Election && p.Form != inspect.Foreign {
		who = string(p.Value)
	}
	if who == "" {
		who = cli.Who(p)
	}
	if cli.IsTerminal(os.Stdout) {
		who = cli.Plain(who)
	}
	return who
}

func (o *showOptions) show(ctx context.Context, cmd *cobra.Command, c *pawl.Client, scope inspect.Scope) error {
	if !o.all && !o.JSON {
		scope.First = maxShown
	}
	v, err := read(ctx, c, scope, func(l inspect.NamedQueue) []inspect.Position { return shownOf(l, scope.First) })
	if err != nil {
		return err
	}
	if len(v.Queues) == 0 {
		return o.showNobody(ctx, cmd, c, scope)
	}
	for i, l := range v.Queues {
		print := func(w io.Writer, l inspect.NamedQueue) error { return v.print(w, l, scope.First) }
		if o.JSON {
			print = v.printJSON
		} else if i > 0 {
			fmt.Fprintln(cmd.OutOrStdout())
		}
		if err := print(cmd.OutOrStdout(), l); err != nil {
			return cli.Written(err)
		}
	}
	return nil
}

// printJSON prints a queue, a line of JSON for each position.
func (v *view) printJSON(w io.Writer, l inspect.NamedQueue) error {
	out := json.NewEncoder(w)
	for i := range l.Queue {
		if err := out.Encode(v.position(l, i)); err != nil {
			return err
		}
	}
	return nil
}

// maxShown is how much of a queue people are shown, unless they want all.
const maxShown = 100

// shownOf are the first positions of a queue; 0 means all.
func shownOf(l inspect.NamedQueue, first int) []inspect.Position {
	if first == 0 {
		return l.Queue
	}
	return l.Queue[:min(first, len(l.Queue))]
}

// print prints a queue, or its first positions, for people to read.
func (v *view) print(w io.Writer, l inspect.NamedQueue, first int) error {
	front := shownOf(l, first)
	fmt.Fprintf(w, "%s %s%s, at revision %d%s\n", l.Kind(), strconv.Quote(l.Name), prefixed(", ", layout(l)), v.Revision, prefixed(": ", cli.Sum(l)))
	t := cli.NewTable(w, "", "KIND", "OWNER", "HOST", "PID", "TOKEN", "AGE", "TTL LEFT", "LEASE", "KEY")
	for i, p := range front {
		position := "holds"
		switch {
		case p.HasSlot():
			position = fmt.Sprintf("slot %d", p.Slot)
		case !p.Holds:
			position = strconv.Itoa(i - len(l.Holders()) + 1)
		}
		lease, pid := "none", "-"
		if p.Lease != 0 {
			lease = cli.LeaseHex(p.Lease)
		}
		if p.PID != 0 {
			pid = strconv.Itoa(p.PID)
		}
		t.Row(position, kindAt(p), shown(p), cli.OrNone(p.Host), pid, cli.Token(p), cli.Age(p, v.now), cli.Left(v.leases, p), lease, p.Key)
	}
	if err := t.Write(); err != nil {
		return err
	}
	if more := len(l.Queue) - len(front); more > 0 {
		fmt.Fprintf(w, "and %d more: --all shows them\n", more)
	}
	if mixed := cli.Mixed(l); mixed != "" {
		fmt.Fprintln(w, strings.ToUpper(mixed[:1])+mixed[1:]+".")
	}
	if p := l.Queue[0]; p.Election {
		fmt.Fprintf(w, "value: %q%s\n", p.Value, cli.More(p))
	}
	for _, p := range front {
		if p.Stall > 0 && p.Holds {
			fmt.Fprintf(w, "%s loses it after %v without progress\n", cli.Plain(cli.Who(p)), p.Stall)
		}
		if with := cli.With(l.Name, p); with != "" {
			fmt.Fprintf(w, "%s%s: all or none\n", cli.Plain(cli.Who(p)), with)
		}
	}
	return nil
}

// prefixed is s after what goes before it, or "" without an s.
func prefixed(before, s string) string {
	if s == "" {
		return ""
	}
	return before + s
}

// kindAt is the kind of a position in the queue.
func kindAt(p inspect.Position) string {
	switch {
	case p.Form == inspect.Foreign:
		return "-"
	case p.Mode == inspect.ModeShared:
		return "shared lock"
	}
	return p.Kind()
}

// shown formats the owner of a position, beside its key.
func shown(p inspect.Position) string {
	switch {
	case p.Owner != "":
		return p.Owner
	case p.Form == inspect.Foreign:
		return "foreign"
	}
	return p.Form.String()
}

// showNobody prints that the name is free, and, if it is taken in the other layout, a hint.
func (o *showOptions) showNobody(ctx context.Context, cmd *cobra.Command, c *pawl.Client, scope inspect.Scope) error {
	if o.JSON {
		return nil
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s: nobody holds it or waits for it\n", strconv.Quote(scope.Name))
	if shared, err := inspect.SharedOuts(ctx, c, scope.Name); err == nil && len(shared) > 0 && shared[0].Name == scope.Name {
		fmt.Fprintf(cmd.ErrOrStderr(), "pawl: its shards are shared out among workers: look with pawl shards %s\n", cli.ShellName(scope.Name))
	}
	if !strings.Contains(scope.Name, "/") {
		return nil
	}
	other := scope
	other.EtcdLayout = !scope.EtcdLayout
	if v, err := inspect.Read(ctx, c, other); err == nil && len(v.Queues) > 0 {
		hint := "with --etcd-layout"
		if scope.EtcdLayout {
			hint = "without --etcd-layout"
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "pawl: in the other layout somebody does: look %s\n", hint)
	}
	return nil
}
