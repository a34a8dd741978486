package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/inspect"
)

func newShow() *cobra.Command {
	var o looking
	cmd := &cobra.Command{
		Use:   "show NAME",
		Short: "Show who holds a lock or leads, and who waits, in order",
		Long: `Shows who holds the lock NAME, or leads the election NAME, and who waits for it, in
the order in which they will be served: owner, host and pid, fencing token, lease and
what it has left, since when the key is there, and the key.

A token goes up along the queue: it is the revision at which the key was put. A
foreign key is one that pawl does not know; whoever stands behind it waits until
somebody deletes it.

With --json a line is an object as of pawl ls, with position: 0 holds.`,
		Example: `  pawl show backup
  pawl show --etcd-layout jobs/42      # of etcdctl lock jobs/42
  pawl show --json backup | jq -r 'select(.position == 0).owner'`,
		Args: oneName,
		RunE: func(cmd *cobra.Command, args []string) error {
			scope, err := o.scope(args[0])
			if err != nil {
				return err
			}
			return o.with(cmd, func(ctx context.Context, c *pawl.Client) error { return o.show(ctx, cmd, c, scope) })
		},
	}
	o.flags(cmd, "place in the queue")
	o.nameFlags(cmd)
	return cmd
}

func (o *looking) show(ctx context.Context, cmd *cobra.Command, c *pawl.Client, scope inspect.Scope) error {
	v, err := look(ctx, c, scope, func(l inspect.Line) []inspect.Place { return l.Queue })
	if err != nil {
		return err
	}
	if len(v.Lines) == 0 {
		return o.showNobody(ctx, cmd, c, scope)
	}
	l := v.Lines[0]
	if o.json {
		out := json.NewEncoder(cmd.OutOrStdout())
		for i := range l.Queue {
			if err := out.Encode(v.placed(l, i)); err != nil {
				return written(err)
			}
		}
		return nil
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s %s, at revision %d\n", kindOf(l.Election), strconv.Quote(l.Name), v.Revision)
	t := newTable(cmd, "", "OWNER", "HOST", "PID", "TOKEN", "AGE", "TTL LEFT", "LEASE", "KEY")
	for i, p := range l.Queue {
		place := "holds"
		if i > 0 {
			place = strconv.Itoa(i)
		}
		lease, pid := "none", "-"
		if p.Lease != 0 {
			lease = leaseHex(p.Lease)
		}
		if p.PID != 0 {
			pid = strconv.Itoa(p.PID)
		}
		t.row(place, shown(p), orNone(p.Host), pid, strconv.FormatInt(int64(p.Token), 10), ageOf(p, v.now), v.left(p), lease, p.Key)
	}
	if err := t.Flush(); err != nil {
		return written(err)
	}
	if p := l.Queue[0]; p.Election {
		fmt.Fprintf(cmd.OutOrStdout(), "value: %q%s\n", p.Value, more(p))
	}
	return nil
}

// shown is who a place is, beside its key.
func shown(p inspect.Place) string {
	switch {
	case p.Owner != "":
		return p.Owner
	case p.Form == inspect.Foreign:
		return "foreign"
	}
	return p.Form.String()
}

// more says how much of a value is not shown.
func more(p inspect.Place) string {
	if n := p.Size - len(p.Value); n > 0 {
		return fmt.Sprintf(" and %d bytes more", n)
	}
	return ""
}

// showNobody says that the name is free; and where it is not free in the other
// layout, that.
func (o *looking) showNobody(ctx context.Context, cmd *cobra.Command, c *pawl.Client, scope inspect.Scope) error {
	if o.json {
		return nil
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s: nobody holds it or waits for it\n", strconv.Quote(scope.Name))
	if !strings.Contains(scope.Name, "/") {
		return nil
	}
	other := scope
	other.EtcdLayout = !scope.EtcdLayout
	if v, err := inspect.Read(ctx, c, other); err == nil && len(v.Lines) > 0 {
		hint := "with --etcd-layout"
		if scope.EtcdLayout {
			hint = "without --etcd-layout"
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "pawl: in the other layout somebody does: look %s\n", hint)
	}
	return nil
}
