package show

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-locks/pawl/internal/inspect"
	"github.com/pawl-locks/pawl/shard"
)

type shardsOptions struct {
	cli.Reader
	each, watch bool
}

func NewShards() *cobra.Command {
	var o shardsOptions
	cmd := &cobra.Command{
		Use:   "shards NAME",
		Short: "Show which worker has which shards of a name",
		Long: `Shows the workers of NAME, as package shard shares its shards out among them: each with
its value, its lease, its weight, the shards that it has, and what is particular about
it. It plans; it leaves; it is drained; it cannot take some shards now; it is wished
other shards than it has, which move.

The first line says how many shards nobody has, how many move, and for how long a change
has waited for a plan. A plan is made a second after the last change.

With --each it shows every shard: who has it, the fencing token, and who waits for it.

If workers measure their shards' loads, LOAD is the sum of those that each tells, and
how many hundredths of the mean for its weight that is; with --each, the load of each
shard.

With --json it prints one object with name, revision, shards (how many), unowned,
resting, moving, unplanned (seconds), members (lease, value, id, weight, plans, leaving,
drained, sick, trial, heldUntil, held, wished, cannot, and if it measures, measured and
load) and owners (shard, lease, value, token, next, load, restsUntil, kills);
valueBase64 if a value is not UTF-8. With --watch it also prints such an object, on one
line, after each change, until it is stopped: for programs that route by shard and are
not written in Go.

A shard that failed on several workers has no owner for a while, on purpose: it rests,
which --each shows, with the time of the next try.`,
		Example: `  pawl shards orders
  pawl shards --each orders
  pawl shards --json orders | jq '.unowned'
  pawl shards --watch --json orders | jq -c '.owners'
  pawl shards drain orders 694d8d2b6c1e3a05   # move its shards to the others`,
		Args: cli.OneName,
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.each && o.JSON {
				return cli.Usage("of --each and --json, give one")
			}
			if o.watch && !o.JSON {
				return cli.Usage("--watch needs --json")
			}
			return o.With(cmd, func(ctx context.Context, c *pawl.Client) error { return o.show(ctx, cmd.OutOrStdout(), c, args[0]) })
		},
	}
	o.Connection.Flags(cmd.Flags())
	cmd.Flags().BoolVar(&o.JSON, "json", false, "an object in JSON")
	cmd.Flags().BoolVar(&o.watch, "watch", false, "with --json, print another object after each change")
	cmd.Flags().BoolVar(&o.each, "each", false, "show each shard")
	drain := newDrain()
	drain.GroupID = "act"
	cmd.AddGroup(&cobra.Group{ID: drain.GroupID, Title: "Repairing:"})
	cmd.AddCommand(drain)
	return cmd
}

func (o *shardsOptions) show(ctx context.Context, out io.Writer, c *pawl.Client, name string) error {
	for t, err := range shard.Observe(ctx, c, name) {
		switch {
		case err != nil:
			return err
		case o.JSON && o.watch:
			if err := cli.JSONLine(out, shardsJSON(name, t)); err != nil {
				return cli.Written(err)
			}
			continue
		case o.JSON:
			return cli.Written(cli.JSONLine(out, shardsJSON(name, t)))
		case len(t.Shards) == 0:
			_, err := fmt.Fprintf(out, "%s: nobody works on its shards\n", strconv.Quote(name))
			return cli.Written(err)
		case o.each:
			return cli.Written(printShards(out, t))
		}
		return cli.Written(printWorkers(out, name, t))
	}
	return nil
}

func printWorkers(out io.Writer, name string, t shard.Table) error {
	unowned, moving := cli.SharedOut(t)
	what := []string{fmt.Sprintf("%d shards", len(t.Shards)), cli.Count(len(t.Members), "worker")}
	if unowned > 0 {
		what = append(what, fmt.Sprintf("%d without an owner", unowned))
	}
	if n := cli.Resting(t); n > 0 {
		what = append(what, fmt.Sprintf("%d resting", n))
	}
	if moving > 0 {
		what = append(what, fmt.Sprintf("%d moving", moving))
	}
	if t.Unplanned > 0 {
		what = append(what, "a change waits for a plan")
	}
	if _, err := fmt.Fprintf(out, "%s at revision %d: %s\n", strconv.Quote(name), t.Revision, strings.Join(what, ", ")); err != nil {
		return err
	}
	titles := []string{"WORKER", "LEASE", "WEIGHT", "HAS"}
	loads := cli.Loads(t)
	if loads != nil {
		titles = append(titles, "LOAD")
	}
	table := cli.NewTable(out, append(titles, "SHARDS", "STATE")...)
	held := cli.HeldBy(t)
	for _, m := range t.Members {
		row := []string{cli.OrNone(string(m.Value)), cli.LeaseHex(m.Lease), strconv.Itoa(m.Weight), strconv.Itoa(m.Held)}
		if loads != nil {
			row = append(row, loads[m.Lease])
		}
		table.Row(append(row, cli.OrNone(held[m.Lease]), cli.OrNone(cli.Particular(m)))...)
	}
	return table.Write()
}

func printShards(out io.Writer, t shard.Table) error {
	titles := []string{"SHARD", "WORKER", "LEASE", "TOKEN", "NEXT"}
	if cli.Measures(t) {
		titles = append(titles, "LOAD")
	}
	table := cli.NewTable(out, titles...)
	for i, s := range t.Shards {
		lease, next, token := "none", "-", "-"
		if s.Token != 0 {
			token = strconv.FormatInt(int64(s.Token), 10)
		}
		switch {
		case s.Lease != 0:
			lease = cli.LeaseHex(s.Lease)
		case s.Token != 0:
			lease = "foreign key"
		case s.Rest != (shard.Rest{}):
			lease = cli.RestOf(s.Rest)
		}
		if s.Next != 0 {
			next = cli.LeaseHex(s.Next)
		}
		row := []string{strconv.Itoa(i), cli.OrNone(string(s.Value)), lease, token, next}
		if cli.Measures(t) {
			row = append(row, cli.LoadText(s.Load))
		}
		table.Row(row...)
	}
	return table.Write()
}

type (
	tableJSON struct {
		Name       string       `json:"name"`
		NameBase64 string       `json:"nameBase64,omitempty"`
		Revision   int64        `json:"revision"`
		Shards     int          `json:"shards"`
		Unowned    int          `json:"unowned"`
		Resting    int          `json:"resting"`
		Moving     int          `json:"moving"`
		Unplanned  float64      `json:"unplanned"`
		Members    []memberJSON `json:"members"`
		Owners     []ownerJSON  `json:"owners"`
	}
	memberJSON struct {
		Lease       string `json:"lease"`
		Value       string `json:"value"`
		ValueBase64 string `json:"valueBase64,omitempty"`
		ID          string `json:"id"`
		Weight      int    `json:"weight"`
		Plans       bool   `json:"plans"`
		Leaving     bool   `json:"leaving"`
		Drained     bool   `json:"drained"`
		Sick        bool   `json:"sick"`
		Trial       bool   `json:"trial"`
		HeldUntil   string `json:"heldUntil,omitempty"`
		Held        int    `json:"held"`
		Wished      int    `json:"wished"`
		Cannot      int    `json:"cannot"`

		Measured int      `json:"measured,omitempty"`
		Load     *float64 `json:"load,omitempty"` // of those that are measured
	}
	ownerJSON struct {
		Shard       int    `json:"shard"`
		Lease       string `json:"lease"`
		Value       string `json:"value"`
		ValueBase64 string `json:"valueBase64,omitempty"`
		Token       int64  `json:"token"`
		Next        string `json:"next"`
		RestsUntil  string `json:"restsUntil,omitempty"`
		Kills       bool   `json:"kills,omitempty"`

		Load float64 `json:"load,omitempty"`
	}
)

// leaseOr is a lease in hex, or "" for none.
func leaseOr(lease int64) string {
	if lease == 0 {
		return ""
	}
	return cli.LeaseHex(lease)
}

// timeOr is a time as RFC 3339 has it, or "" for none.
func timeOr(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

func shardsJSON(name string, t shard.Table) tableJSON {
	unowned, moving := cli.SharedOut(t)
	out := tableJSON{
		Name: name, NameBase64: cli.Base64(name), Revision: t.Revision, Shards: len(t.Shards), Unowned: unowned, Resting: cli.Resting(t), Moving: moving,
		Unplanned: t.Unplanned.Round(time.Millisecond).Seconds(), Members: []memberJSON{}, Owners: []ownerJSON{},
	}
	for _, m := range t.Members {
		value := string(m.Value)
		var load *float64
		if m.Measured > 0 {
			load = &m.Load
		}
		out.Members = append(out.Members, memberJSON{
			cli.LeaseHex(m.Lease), value, cli.Base64(value), m.ID, m.Weight, m.Plans, m.Leaving, m.Drained, m.Sick, m.Trial, timeOr(m.HeldUntil), m.Held, m.Wished, m.Cannot,
			m.Measured, load,
		})
	}
	for i, s := range t.Shards {
		value := string(s.Value)
		out.Owners = append(out.Owners, ownerJSON{i, leaseOr(s.Lease), value, cli.Base64(value), int64(s.Token), leaseOr(s.Next), timeOr(s.Rest.Until), s.Rest.Kills, s.Load})
	}
	return out
}

type drainOptions struct {
	cli.Reader
	undo bool
}

func newDrain() *cobra.Command {
	var o drainOptions
	cmd := &cobra.Command{
		Use:   "drain NAME WORKER",
		Short: "Move a worker's shards to the others",
		Long: `Tells a worker of NAME to give up its shards to the others in order, and to take none
from now on: before a machine is taken down, for example. WORKER is its lease, as pawl
shards shows it, or its value if no other worker has the same. The worker's program runs
on. What no other worker can take stays where it is.

drain returns when that is written; pawl shards shows the shards move. --undo ends it,
and so does a restart of the worker.`,
		Example: `  pawl shards drain orders 694d8d2b6c1e3a05
  pawl shards drain orders 10.0.0.7:8080
  pawl shards drain --undo orders 10.0.0.7:8080`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) < 2 {
				return cli.Usage("%s: want NAME and WORKER", cmd.CommandPath())
			}
			return cli.UpTo(2, "NAME and WORKER")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.With(cmd, func(ctx context.Context, c *pawl.Client) error {
				return o.drain(ctx, cmd.OutOrStdout(), c, args[0], args[1])
			})
		},
	}
	o.Connection.Flags(cmd.Flags())
	cmd.Flags().BoolVar(&o.undo, "undo", false, "let it take its share again")
	return cmd
}

func (o *drainOptions) drain(ctx context.Context, out io.Writer, c *pawl.Client, name, who string) error {
	for t, err := range shard.Observe(ctx, c, name) {
		if err != nil {
			return err
		}
		m, err := pick(t.Members, who)
		if err != nil {
			return fmt.Errorf("drain %q: %w", name, err)
		}
		if err := inspect.Drain(ctx, c, name, m.Lease, !o.undo); err != nil {
			return err
		}
		what := fmt.Sprintf("gives up its %s as the others come for them", cli.Count(m.Held, "shard"))
		if o.undo {
			what = "takes its share again"
		}
		_, err = fmt.Fprintf(out, "%s %s\n", cli.LeaseHex(m.Lease), what)
		return cli.Written(err)
	}
	return nil
}

// pick returns the worker with this lease or value. An empty one, as of an unset variable in a
// script, matches nobody.
func pick(all []shard.Member, who string) (found shard.Member, err error) {
	n := 0
	for _, m := range all {
		if cli.LeaseHex(m.Lease) == strings.TrimLeft(who, "0") { // etcdctl pads leases with zeros
			return m, nil
		}
		if string(m.Value) == who && who != "" {
			found = m
			n++
		}
	}
	switch n {
	case 0:
		return found, fmt.Errorf("%q: %w", who, inspect.ErrNoWorker)
	case 1:
		return found, nil
	}
	return found, fmt.Errorf("%q: several workers have this value: name one by its lease", who)
}
