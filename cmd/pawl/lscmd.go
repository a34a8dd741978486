package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/internal/inspect"
)

func newLs() *cobra.Command {
	var o looking
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
		Args: upTo(1, "PREFIX"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.with(cmd, func(ctx context.Context, c *pawl.Client) error {
				return list(ctx, &o, cmd, c, prefixOf(args))
			})
		},
	}
	o.flags(cmd, "lock or election")
	completesNames(cmd, &o.connection)
	return cmd
}

func list(ctx context.Context, o *looking, cmd *cobra.Command, c *pawl.Client, prefix string) error {
	v, err := look(ctx, c, inspect.Scope{Prefix: prefix}, func(l inspect.Line) []inspect.Place { return l.Queue[:1] })
	if err != nil {
		return err
	}
	if o.json {
		out := json.NewEncoder(cmd.OutOrStdout())
		for _, l := range v.Lines {
			p, waiters := v.placed(l, 0), len(l.Queue)-1
			p.Waiters = &waiters
			if err := out.Encode(p); err != nil {
				return written(err)
			}
		}
		return nil
	}
	if len(v.Lines) == 0 {
		fmt.Fprintln(cmd.ErrOrStderr(), "pawl: nobody holds or waits for anything here; --namespace says where to look")
		return nil
	}
	t := newTable(cmd.OutOrStdout(), "NAME", "KIND", "HOLDER", "TOKEN", "AGE", "WAITERS", "TTL LEFT")
	for _, l := range v.Lines {
		p := l.Queue[0]
		t.row(l.Name, kindOf(l.Election), whoIs(p), strconv.FormatInt(int64(p.Token), 10), ageOf(p, v.now), strconv.Itoa(len(l.Queue)-1), leftOf(v.leases, p))
	}
	return written(t.write())
}
