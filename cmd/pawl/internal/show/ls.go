package show

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-locks/pawl/internal/inspect"
)

func NewLs() *cobra.Command {
	var o cli.Reader
	cmd := &cobra.Command{
		Use:   "ls [PREFIX]",
		Short: "List the locks, semaphores and elections that somebody holds",
		Long: `Lists the locks, semaphores and elections that somebody holds or waits for, or those of
them whose names begin with PREFIX. Each line has the holder, its fencing token, how
long it has held the name, the number of waiters, and how much of its lease is left
unless it is renewed. Of a holder that may have waited, the age is that of its key,
which it has not held for longer: ≤3m10s.

If a shared lock or a semaphore has several holders, token, age and lease are those of
the first; pawl show lists all. A holder of several names at once is listed at each of
them, with its other names.

ls only reads: it writes nothing and holds no lease. The list shows one revision of
etcd. A name with a slash that is used verbatim, with --etcd-layout, is marked: the
same name in pawl's own layout is another lock. The age of an election is that of its
holder's session, which may be older than the term. A foreign key as holder blocks the
name until somebody deletes it: see pawl doctor.

A name whose shards are shared out has one line, with how many shards and workers there
are, and how many shards nobody has; pawl shards shows more. With --json its object has
name, kind (shards), shards, workers and unowned.

With --json each other line is an object with name, kind (lock, election, semaphore),
layout, key, form (pawl, etcd, foreign), mode (exclusive, shared, semaphore, foreign),
slot, limit, names, token, lease, ttl and left (seconds), owner, host, pid, since (when
its key was put), heldSince (when it began to hold, if that is known), value, holders,
waiters and revision; and nameBase64, keyBase64 and valueBase64 if those are not UTF-8.`,
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
	o.Flags(cmd, "name")
	cli.CompletesNames(cmd, &o.Connection)
	return cmd
}

func list(ctx context.Context, o *cli.Reader, cmd *cobra.Command, c *pawl.Client, prefix string) error {
	v, err := read(ctx, c, inspect.Scope{Prefix: prefix, First: 1}, firstHolder)
	if err != nil {
		return err
	}
	shared, err := inspect.SharedOuts(ctx, c, prefix)
	if err != nil {
		return err
	}
	if o.JSON {
		out := json.NewEncoder(cmd.OutOrStdout())
		for _, l := range v.Queues {
			p := v.queueOnly(l)
			holders, waiters := len(l.Holders()), len(l.Waiters())
			if holders > 0 {
				p = v.position(l, 0)
			}
			p.Holders, p.Waiters = &holders, &waiters
			if err := out.Encode(p); err != nil {
				return cli.Written(err)
			}
		}
		for _, s := range shared {
			if err := out.Encode(sharedJSON{s.Name, cli.Base64(s.Name), "shards", s.Shards, s.Workers, max(s.Shards-s.Owned, 0)}); err != nil {
				return cli.Written(err)
			}
		}
		return nil
	}
	if len(v.Queues)+len(shared) == 0 {
		fmt.Fprintln(cmd.ErrOrStderr(), "pawl: nobody holds or waits for anything here; --namespace says where to look")
		return nil
	}
	t := cli.NewTable(cmd.OutOrStdout(), "NAME", "KIND", "HOLDER", "TOKEN", "AGE", "WAITERS", "TTL LEFT")
	for _, l := range v.Queues {
		token, age, left := "-", "-", "-"
		if p, ok := l.Holder(); ok {
			token, age, left = cli.Token(p), cli.Age(p, v.now), cli.Left(v.leases, p)
		}
		t.Row(l.Name, l.Kind()+prefixed(", ", layout(l)), cli.OrNone(cli.Holding(l)), token, age, cli.Waiting(l), left)
	}
	for _, s := range shared {
		waiters := "-"
		if left := s.Shards - s.Owned; left > 0 {
			waiters = fmt.Sprintf("%d without an owner", left)
		}
		t.Row(s.Name, cli.Count(s.Shards, "shard"), cli.Count(s.Workers, "worker"), "-", "-", waiters, "-")
	}
	return cli.Written(t.Write())
}

// sharedJSON is a name whose shards are shared out.
type sharedJSON struct {
	Name       string `json:"name"`
	NameBase64 string `json:"nameBase64,omitempty"`
	Kind       string `json:"kind"`
	Shards     int    `json:"shards"`
	Workers    int    `json:"workers"`
	Unowned    int    `json:"unowned"`
}

// firstHolder is a queue's holder whose lease is read.
func firstHolder(l inspect.NamedQueue) []inspect.Position { return l.Queue[:min(1, len(l.Holders()))] }
