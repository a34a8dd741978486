package show

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-locks/pawl/cmd/pawl/internal/supervise"
	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/internal/inspect"
)

func NewWatch() *cobra.Command {
	var o cli.Reader
	cmd := &cobra.Command{
		Use:   "watch [PREFIX]",
		Short: "Print each acquisition, release and loss, as it happens",
		Long: `Prints a line for each present holder, and then for each change of all locks,
semaphores and elections, or of those whose names begin with PREFIX:

  holds       it was held when pawl watch started
  acquired    somebody holds it now, alone, shared, or a slot; with the time it waited
  enqueued    a waiter has joined the queue
  proclaimed  the leader has put a new value
  released    its holder released it; with the time it was held
  lost        its holder lost it; with the cause
  gave up     a waiter has left the queue
  ended       released or lost: etcd does not record which

The causes are: "handed on" (the release handed the lock to the next), "key deleted"
(while its session lived: by its release, by hand, or by its own process
after MaxHold or by pawld for a client, which look the same), "lease
ended" (it expired, was revoked, or its session was closed before a release),
"broken" (pawl break, and who called it), "overwritten", "cause unknown".

Times are those of this machine when pawl saw the change. pawl watch survives the loss
of members and connections. After a gap, for example because etcd has compacted changes
that were not seen yet, it prints the differences with a "?". It writes nothing, holds
no lease, and exits with 0 at a signal.

With --json each line is an object with event, cause, by, name, kind, mode, slot, names,
key, token, lease, owner, host, pid, value, waited and held (seconds), revision, time
and unsure; and nameBase64, keyBase64 and valueBase64 if those are not UTF-8.`,
		Example: `  pawl watch
  pawl watch reports/
  pawl watch --json | jq -r 'select(.event == "lost") | [.time, .name, .cause] | @tsv'`,
		Args: cli.UpTo(1, "PREFIX"),
		RunE: func(cmd *cobra.Command, args []string) error {
			err := o.With(cmd, func(ctx context.Context, c *pawl.Client) error {
				return follow(ctx, cmd.OutOrStdout(), o.JSON, c, cli.PrefixOf(args))
			})
			var sig *supervise.Interrupted
			if errors.As(err, &sig) {
				return nil
			}
			return err
		},
	}
	o.Flags(cmd, "change")
	cli.CompletesNames(cmd, &o.Connection)
	return cmd
}

// follow prints the holders, and then each change.
func follow(ctx context.Context, out io.Writer, inJSON bool, c *pawl.Client, prefix string) error {
	f, err := inspect.Follow(ctx, c, inspect.Scope{Prefix: prefix})
	if err != nil {
		return err
	}
	defer f.Close()
	s := f.Snapshot()
	var events []inspect.Event
	for _, l := range s.Queues {
		for _, p := range l.Holders() {
			events = append(events, inspect.Event{
				Name: l.Name, Election: l.Election, Position: p, Revision: s.Revision, Time: time.Now(), Waited: -1, Held: -1,
			})
		}
	}
	event := func(inspect.Event) string { return "holds" }
	for {
		for _, e := range events {
			if _, err := fmt.Fprintln(out, change(inJSON, e, event(e))); err != nil {
				return cli.Written(err)
			}
		}
		if events, err = f.Next(ctx); err != nil {
			return err
		}
		event = func(e inspect.Event) string { return e.Kind.String() }
	}
}

// changed is an event as a line of JSON.
type changed struct {
	Event    string        `json:"event"`
	Cause    string        `json:"cause,omitempty"`
	By       string        `json:"by,omitempty"`
	Name     string        `json:"name"`
	Kind     string        `json:"kind"`
	Mode     inspect.Mode  `json:"mode"`
	Slot     *int          `json:"slot,omitempty"`
	Names    []string      `json:"names,omitempty"`
	Key      string        `json:"key"`
	Token    fencing.Token `json:"token"`
	Lease    string        `json:"lease,omitempty"`
	Owner    string        `json:"owner,omitempty"`
	Host     string        `json:"host,omitempty"`
	PID      int           `json:"pid,omitempty"`
	Value    string        `json:"value,omitempty"`
	Waited   *float64      `json:"waited,omitempty"`
	Held     *float64      `json:"held,omitempty"`
	Revision int64         `json:"revision"`
	Time     time.Time     `json:"time"`
	Unsure   bool          `json:"unsure,omitempty"`

	// These have, in base64, what JSON cannot represent as it is.
	NameBase64  string `json:"nameBase64,omitempty"`
	KeyBase64   string `json:"keyBase64,omitempty"`
	ValueBase64 string `json:"valueBase64,omitempty"`
}

// change is an event as a line.
func change(inJSON bool, e inspect.Event, event string) string {
	if !inJSON {
		return changeText(e, event)
	}
	p := e.Position
	c := changed{
		Event: event, Cause: e.Cause.String(), By: e.By, Name: e.Name, Kind: p.Kind(), Mode: p.Mode, Names: p.Names, Key: p.Key,
		Owner: p.Owner, Host: p.Host, PID: p.PID, Value: string(p.Value), Waited: seconds64(e.Waited), Held: seconds64(e.Held),
		Revision: e.Revision, Time: e.Time, Unsure: e.Unsure,
		NameBase64: cli.Base64(e.Name), KeyBase64: cli.Base64(p.Key), ValueBase64: cli.Base64(string(p.Value)),
	}
	if p.Lease != 0 {
		c.Lease = cli.LeaseHex(p.Lease)
	}
	if p.HasSlot() {
		c.Slot = &p.Slot
	}
	if cli.HasToken(p) {
		c.Token = p.Token
	}
	line, _ := json.Marshal(c) // of plain fields: cannot fail
	return string(line)
}

func seconds64(d time.Duration) *float64 {
	if d < 0 {
		return nil
	}
	s := d.Seconds()
	return &s
}

func changeText(e inspect.Event, event string) string {
	if e.Unsure {
		event += "?"
	}
	p := e.Position
	s := fmt.Sprintf("%s %-10s %s token=%-6s %s", e.Time.Format(cli.ClockTime), event, cli.Padded(cli.Plain(e.Name), 20), cli.Token(p), cli.Plain(cli.Who(p)))
	switch {
	case p.Mode == inspect.ModeShared:
		s += " (reader)"
	case p.HasSlot():
		s += fmt.Sprintf(" slot=%d", p.Slot)
	}
	s += cli.With(e.Name, p)
	if e.Kind == inspect.Proclaimed {
		s += " value=" + strconv.Quote(string(e.Position.Value))
	}
	if e.Waited >= 0 {
		s += " waited=" + cli.Span(e.Waited)
	}
	if e.Held >= 0 {
		s += " held=" + cli.Span(e.Held)
	}
	if e.Cause != inspect.NoCause {
		s += ": " + e.Cause.String()
	}
	if e.By != "" {
		s += " by " + cli.Plain(e.By)
	}
	return s
}
