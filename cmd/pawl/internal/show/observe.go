package show

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-locks/pawl/cmd/pawl/internal/supervise"
	"github.com/pawl-locks/pawl/elect"
	"github.com/pawl-locks/pawl/fencing"
)

type observeOptions struct {
	cli.Connection
	json bool
	etcd bool
}

func NewObserve() *cobra.Command {
	var o observeOptions
	cmd := &cobra.Command{
		Use:   "observe NAME",
		Short: "Print who leads an election, one line for each change",
		Long: `Prints who leads NAME now, and a line for each change: another leader, another value,
or no leader. It writes nothing, holds no lease, and exits with 0 at a signal.

With --json each line is an object with name, key, token, value, revision (the revision
of etcd that it shows) and time. Without a leader, token is 0, and key and value are "".
A name, key or value that is not UTF-8 is also given in base64, as nameBase64 and so on.

pawl show --holder prints once who leads. Semaphores have no leader: pawl show lists
their slots.`,
		Example: `  pawl observe scheduler
  pawl observe --json scheduler | while read -r line; do ./notify "$line"; done`,
		Args: cli.OneName,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cli.CheckName(args[0], o.etcd); err != nil {
				return err
			}
			ctx, stop := supervise.Catch().Ends(context.Background())
			defer stop()
			client, closed, err := o.Open(ctx, cmd.Flags())
			if err == nil {
				defer closed()
				err = o.run(ctx, cmd.OutOrStdout(), client, args[0])
			}
			var sig *supervise.Interrupted
			if errors.As(context.Cause(ctx), &sig) {
				return nil
			}
			return err
		},
	}
	fs := cmd.Flags()
	o.Connection.Flags(fs)
	fs.BoolVar(&o.json, "json", false, "a line of JSON for each change")
	fs.BoolVar(&o.etcd, "etcd-layout", false, "use NAME verbatim, to observe etcdctl elect and clientv3's concurrency.Election")
	cli.CompletesNames(cmd, &o.Connection)
	return cmd
}

func (o *observeOptions) run(ctx context.Context, out io.Writer, client *pawl.Client, name string) error {
	for l, err := range elect.Observe(ctx, client, name, elect.Options{EtcdLayout: o.etcd}) {
		if err != nil {
			return cli.Reach(err)
		}
		if _, err := fmt.Fprintln(out, o.line(l, time.Now())); err != nil {
			return cli.Written(err)
		}
	}
	return nil
}

// observed is a leader as a line of JSON.
type observed struct {
	Name     string        `json:"name"`
	Key      string        `json:"key"`
	Token    fencing.Token `json:"token"`
	Value    string        `json:"value"`
	Revision int64         `json:"revision"`
	Time     time.Time     `json:"time"`

	// These have, in base64, what JSON cannot represent as it is.
	NameBase64  string `json:"nameBase64,omitempty"`
	KeyBase64   string `json:"keyBase64,omitempty"`
	ValueBase64 string `json:"valueBase64,omitempty"`
}

func (o *observeOptions) line(l elect.Leader, now time.Time) string {
	if o.json {
		value := string(l.Value)
		line, _ := json.Marshal(observed{
			Name: l.Name, Key: l.Key, Token: l.Token, Value: value, Revision: l.Revision, Time: now,
			NameBase64: cli.Base64(l.Name), KeyBase64: cli.Base64(l.Key), ValueBase64: cli.Base64(value),
		}) // of plain fields: cannot fail
		return string(line)
	}
	if l.Token == 0 {
		return fmt.Sprintf("%s nobody leads %q (revision %d)", now.Format(cli.ClockTime), l.Name, l.Revision)
	}
	return fmt.Sprintf("%s %q leads %q: key=%s token=%d (revision %d)", now.Format(cli.ClockTime), l.Value, l.Name, cli.Plain(l.Key), l.Token, l.Revision)
}
