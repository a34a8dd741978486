package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/cmd/pawl/internal/supervise"
	"github.com/pawl-locks/pawl/internal/inspect"
)

// Reader is the common part of the commands that read a namespace.
type Reader struct {
	Connection
	JSON bool
	etcd bool
}

func (o *Reader) Flags(cmd *cobra.Command, forEach string) {
	o.Connection.Flags(cmd.Flags())
	cmd.Flags().BoolVar(&o.JSON, "json", false, "a line of JSON for each "+forEach)
}

// NameFlags adds the flags of commands that have one NAME.
func (o *Reader) NameFlags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&o.etcd, "etcd-layout", false, "use NAME verbatim, as etcdctl and clientv3's concurrency do; makes no difference if NAME has no slash")
	CompletesNames(cmd, &o.Connection)
}

// Scope is the scope of a NAME, which it checks.
func (o *Reader) Scope(name string) (inspect.Scope, error) {
	if err := CheckName(name, o.etcd); err != nil {
		return inspect.Scope{}, err
	}
	return inspect.Scope{Name: name, EtcdLayout: o.etcd}, nil
}

// PrefixOf is the PREFIX among args, which may be left out.
func PrefixOf(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

// With calls read with a client, and with a ctx that a deadly signal ends.
func (o *Reader) With(cmd *cobra.Command, read func(ctx context.Context, c *pawl.Client) error) error {
	ctx, stop := supervise.Catch().Ends(context.Background())
	defer stop()
	client, closed, err := o.Open(ctx, cmd.Flags())
	if err == nil {
		err = read(ctx, client)
		if cerr := closed(); err == nil {
			err = cerr
		}
	}
	var sig *supervise.Interrupted
	if errors.As(context.Cause(ctx), &sig) && err != nil {
		return EndedBy(sig.Signal, sig)
	}
	return Reach(err)
}
