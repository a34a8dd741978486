package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/cmd/pawl/internal/supervise"
	"github.com/pawl-locks/pawl/internal/inspect"
)

// looking is what the commands that look at a namespace have in common.
type looking struct {
	connection
	json bool
	etcd bool
}

func (o *looking) flags(cmd *cobra.Command, forEach string) {
	o.connection.flags(cmd.Flags())
	cmd.Flags().BoolVar(&o.json, "json", false, "a line of JSON for each "+forEach)
}

// nameFlags are for commands about one NAME.
func (o *looking) nameFlags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&o.etcd, "etcd-layout", false, "take NAME verbatim, as etcdctl and clientv3's concurrency do; without a slash in it, it is the same")
	completesNames(cmd, &o.connection)
}

// scope is the one of a NAME, which it checks.
func (o *looking) scope(name string) (inspect.Scope, error) {
	if err := checkName(name, o.etcd); err != nil {
		return inspect.Scope{}, err
	}
	return inspect.Scope{Name: name, EtcdLayout: o.etcd}, nil
}

// prefixOf is the PREFIX among args, which may be left out.
func prefixOf(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

// with calls look with a client, and a ctx that a deadly signal ends.
func (o *looking) with(cmd *cobra.Command, look func(ctx context.Context, c *pawl.Client) error) error {
	ctx, stop := supervise.Catch().Ends(context.Background())
	defer stop()
	client, closed, err := o.open(ctx, cmd.Flags())
	if err != nil {
		return err
	}
	err = look(ctx, client)
	if cerr := closed(); err == nil {
		err = cerr
	}
	var sig *supervise.Interrupted
	if errors.As(context.Cause(ctx), &sig) && err != nil {
		return sig
	}
	return reach(err)
}
