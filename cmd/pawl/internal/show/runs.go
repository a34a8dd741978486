package show

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-locks/pawl/internal/inspect"
	"github.com/pawl-locks/pawl/internal/keys"
)

type runsOptions struct {
	cli.Reader
	set moment
}

func NewRuns() *cobra.Command {
	var o runsOptions
	cmd := &cobra.Command{
		Use:   "runs [PREFIX]",
		Short: "Show or set back the last runs of pawl lock --once and of schedules",
		Long: `Lists the records of pawl lock --once and of schedules (lock.Mutex.Once and Every), or
those of them whose names begin with PREFIX: for which time each name ran last, when its
schedule is due next, and what is particular. It has begun, and nothing has run yet; so
many runs have failed since; its time is ahead of this machine's clock; the record holds
no time.

Nothing runs for a time up to that of the record. So if a machine whose clock was ahead
has written it, nothing runs until then, and everybody who tries is told so. With
--set TIME the record of one NAME gets that time, RFC 3339 or now, so that the next time
after it is run. A run that is recorded at the same moment is not overwritten. Without a
record --set writes one, for a job that has run elsewhere before.

With --json each line is an object with name, at, next, began, failed (at, times,
again), ahead (seconds) and foreign (the value, if it holds no time); and nameBase64 and
foreignBase64 if those are not UTF-8.`,
		Example: `  pawl runs
  pawl runs --set 2026-01-02T03:00:00Z report   # as if that time had been the last
  pawl runs --json | jq -r 'select(.ahead).name'`,
		Args: cli.UpTo(1, "PREFIX"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.set.IsZero() {
				return o.With(cmd, func(ctx context.Context, c *pawl.Client) error { return o.list(ctx, cmd, c, cli.PrefixOf(args)) })
			}
			if err := o.check(cmd, args); err != nil {
				return err
			}
			return o.With(cmd, func(ctx context.Context, c *pawl.Client) error { return o.setBack(ctx, cmd, c, args[0]) })
		},
	}
	o.Flags(cmd, "name")
	cmd.Flags().Var(&o.set, "set", "write this time as that of the last run of NAME: RFC 3339, or now")
	return cmd
}

// moment is a flag for a time: RFC 3339, or now.
type moment struct{ time.Time }

func (m *moment) Type() string { return "time" }

func (m *moment) String() string {
	if m.IsZero() {
		return ""
	}
	return m.Format(time.RFC3339)
}

func (m *moment) Set(text string) (err error) {
	if text == "now" {
		m.Time = time.Now().Truncate(time.Second)
		return nil
	}
	if m.Time, err = time.Parse(time.RFC3339, text); err != nil || m.IsZero() || m.UTC().Year() < 0 {
		return fmt.Errorf("want a time like 2026-01-02T03:00:00Z, or now")
	}
	return nil
}

// check reports what is wrong with --set.
func (o *runsOptions) check(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cli.Usage("%s: --set wants NAME", cmd.CommandPath())
	}
	if (inspect.Schedule{Run: keys.Run{At: o.set.Time}}).Ahead(time.Now()) > 0 {
		return cli.Usage("--set is %s, which is ahead of this machine's clock: nothing would run until then", &o.set)
	}
	return cli.CheckName(args[0], false)
}

func (o *runsOptions) setBack(ctx context.Context, cmd *cobra.Command, c *pawl.Client, name string) error {
	before, err := inspect.SetRun(ctx, c, name, o.set.Time)
	if err != nil {
		return err
	}
	if o.JSON {
		now := inspect.Schedule{Name: name, Run: keys.Run{At: o.set.Time}}
		return cli.Written(cli.JSONLine(cmd.OutOrStdout(), runOf(now, time.Now())))
	}
	was := "the record was of " + stamp(before.At)
	switch {
	case before.Key == "":
		was = "there was no record"
	case before.At.IsZero():
		was = fmt.Sprintf("the record held no time, but %.40q", before.Foreign)
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "the last run of %q is %s; %s\n", name, stamp(o.set.Time), was)
	return cli.Written(err)
}

// stamp formats a time of a record for people.
func stamp(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}

// run is a record as a line of JSON.
type run struct {
	Name    string     `json:"name"`
	At      *time.Time `json:"at,omitempty"`
	Next    *time.Time `json:"next,omitempty"`
	Began   bool       `json:"began,omitempty"` // nothing has run yet
	Failed  *failed    `json:"failed,omitempty"`
	Ahead   float64    `json:"ahead,omitempty"` // seconds
	Foreign string     `json:"foreign,omitempty"`

	NameBase64    string `json:"nameBase64,omitempty"`
	ForeignBase64 string `json:"foreignBase64,omitempty"`
}

type failed struct {
	At    time.Time `json:"at"`
	Times int       `json:"times"`
	Again time.Time `json:"again"`
}

func runOf(s inspect.Schedule, now time.Time) run {
	r := run{
		Name: s.Name, Began: s.Began, Ahead: s.Ahead(now).Seconds(), Foreign: s.Foreign,
		NameBase64: cli.Base64(s.Name), ForeignBase64: cli.Base64(s.Foreign),
	}
	if !s.At.IsZero() {
		r.At = &s.At
	}
	if !s.Next.IsZero() {
		r.Next = &s.Next
	}
	if f := s.Failed; f.Times > 0 {
		r.Failed = &failed{f.At, f.Times, f.Again}
	}
	return r
}

func (o *runsOptions) list(ctx context.Context, cmd *cobra.Command, c *pawl.Client, prefix string) error {
	all, err := inspect.Schedules(ctx, c, prefix)
	if err != nil {
		return err
	}
	now := time.Now()
	if o.JSON {
		out := json.NewEncoder(cmd.OutOrStdout())
		for _, s := range all {
			if err := out.Encode(runOf(s, now)); err != nil {
				return cli.Written(err)
			}
		}
		return nil
	}
	if len(all) == 0 {
		fmt.Fprintln(cmd.ErrOrStderr(), "pawl: no run is recorded here; --namespace says where to look")
		return nil
	}
	t := cli.NewTable(cmd.OutOrStdout(), "NAME", "LAST RUN", "NEXT", "")
	for _, s := range all {
		t.Row(s.Name, stamp(s.At), stamp(s.Next), particular(s, now))
	}
	return cli.Written(t.Write())
}

// particular says what is particular about a record.
func particular(s inspect.Schedule, now time.Time) string {
	switch ahead := s.Ahead(now); {
	case s.Foreign != "" || s.At.IsZero():
		return fmt.Sprintf("holds no time, but %.40q", s.Foreign)
	case ahead > 0:
		return "ahead of this machine's clock by " + cli.Span(ahead)
	case s.Failed.Times > 0:
		return fmt.Sprintf("failed %s, again at %s", times(s.Failed.Times), stamp(s.Failed.Again))
	case s.Began:
		return "begun, nothing has run yet"
	}
	return ""
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}
