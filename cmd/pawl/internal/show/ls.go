package show

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-locks/pawl/internal/inspect"
)

func NewLs() *cobra.Command {
	var o cli.Reader
	cmd := &cobra.Command{
		Use:   "ls [PREFIX]",
		Short: "List the locks and elections that somebody holds",
		Long: `Lists the locks and elections that somebody holds or waits for, all of them or those
whose names begin with PREFIX: who holds each, with which fencing token, how old the
holder's key is, how many wait, and what its lease has left unless it is renewed.

It reads, writes nothing and holds no lease. The list is how it was at one revision
of etcd. An election's age is its holder's session's, which may be older than the
term. A holder that is a foreign key blocks the name until somebody deletes it: see
pawl doctor.

With --json a line is an object with name, kind (lock, election), layout, key, form
(pawl, etcd, foreign), token, lease, ttl and left (seconds), owner, host, pid, since,
value, waiters and revision; and nameBase64, keyBase64 and valueBase64 where those are
not UTF-8.`,
		Example: `  pawl ls
  pawl ls reports/
  pawl ls --json | jq -r 'select(.waiters > 10).name'`,
		Args: cli.UpTo(1, "PREFIX"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.With(cmd, func(ctx context.Context, c *pawl.Client) error {
				return list(ctx, &o, cmd, c, cli.PrefixOf(args))
			})
		},
	}
	o.Flags(cmd, "lock or election")
	cli.CompletesNames(cmd, &o.Connection)
	return cmd
}

func list(ctx context.Context, o *cli.Reader, cmd *cobra.Command, c *pawl.Client, prefix string) error {
	v, err := read(ctx, c, inspect.Scope{Prefix: prefix}, func(l inspect.NamedQueue) []inspect.Position { return l.Queue[:1] })
	if err != nil {
		return err
	}
	if o.JSON {
		out := json.NewEncoder(cmd.OutOrStdout())
		for _, l := range v.Queues {
			p, waiters := v.position(l, 0), len(l.Queue)-1
			p.Waiters = &waiters
			if err := out.Encode(p); err != nil {
				return cli.Written(err)
			}
		}
		return nil
	}
	if len(v.Queues) == 0 {
		fmt.Fprintln(cmd.ErrOrStderr(), "pawl: nobody holds or waits for anything here; --namespace says where to look")
		return nil
	}
	t := cli.NewTable(cmd.OutOrStdout(), "NAME", "KIND", "HOLDER", "TOKEN", "AGE", "WAITERS", "TTL LEFT")
	for _, l := range v.Queues {
		p := l.Queue[0]
		t.Row(l.Name, cli.KindOf(l.Election), cli.Who(p), strconv.FormatInt(int64(p.Token), 10), cli.Age(p, v.now), strconv.Itoa(len(l.Queue)-1), cli.Left(v.leases, p))
	}
	return cli.Written(t.Write())
}
