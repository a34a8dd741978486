package cli

import (
	"context"
	"errors"
	"time"

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

// endGrace is longer than pawl ui takes to end its connections.
const endGrace = 4 * time.Second

// With calls read with a client, and with a ctx that a deadly signal ends. It waits for read no longer
// than endGrace after that, because a write to a pipe that nobody reads, or to a terminal that Ctrl-S has
// stopped, may never return.
func (o *Reader) With(cmd *cobra.Command, read func(ctx context.Context, c *pawl.Client) error) error {
	ctx, stop := supervise.Catch().Ends(context.Background())
	defer stop()
	done := make(chan error, 1)
	go func() { done <- o.with(ctx, cmd, read) }() // ends with read, or with the process
	err := await(ctx, done)
	var sig *supervise.Interrupted
	if errors.As(context.Cause(ctx), &sig) && err != nil {
		return EndedBy(sig.Signal, sig)
	}
	return Reach(err)
}

// with calls read with a client, which it closes.
func (o *Reader) with(ctx context.Context, cmd *cobra.Command, read func(ctx context.Context, c *pawl.Client) error) error {
	client, closed, err := o.Open(ctx, cmd.Flags())
	if err != nil {
		return err
	}
	err = read(ctx, client)
	if cerr := closed(); err == nil {
		err = cerr
	}
	return err
}

// await returns the error from done, or, a while after the end of ctx, its cause.
func await(ctx context.Context, done <-chan error) error {
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-done:
		return err
	case <-time.After(endGrace):
		return context.Cause(ctx)
	}
}
