package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pawl-locks/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-locks/pawl/cmd/pawl/internal/supervise"
)

func newDev() *cobra.Command {
	var o cli.ServerOptions
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run an etcd server on loopback, for trying things out",
		Long: `Runs an etcd server with one member on 127.0.0.1, prints how to connect to it, and
stops at a signal. It has no authentication. Without --data-dir its data is in
a temporary directory that is removed at exit.`,
		Example: `  pawl dev
  pawl dev --port 0 --data-dir ./etcd-data`,
		Args: cli.Words(0, "no argument"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Port < 0 || o.Port > 65535 {
				return cli.Usage("--port is %d, want 0 to 65535", o.Port)
			}
			ctx, stop := supervise.Catch().Ends(context.Background())
			defer stop()
			return runDev(ctx, cmd, o)
		},
	}
	cmd.Flags().IntVar(&o.Port, "port", 2379, "port to serve on; 0 means a free one")
	cmd.Flags().StringVar(&o.Dir, "data-dir", "", "directory to keep the data in; without it, a temporary one")
	return cmd
}

func runDev(ctx context.Context, cmd *cobra.Command, o cli.ServerOptions) error {
	server, err := cli.StartServer(o)
	if err != nil {
		return err
	}
	where := "temporary"
	if o.Dir != "" {
		where = "kept"
	}
	fmt.Fprintf(cmd.OutOrStdout(), `etcd serves on %[1]s, data in %[2]s (%[3]s). In another shell:

  export ETCDCTL_ENDPOINTS=%[1]s
  pawl lock backup -- sh -c 'echo token $PAWL_TOKEN; sleep 5'

Ctrl-C ends it.
`, server.Endpoint, server.Dir, where)
	select {
	case <-ctx.Done():
	case err = <-server.Etcd.Err():
	case <-server.Etcd.Server.StopNotify():
		err = fmt.Errorf("the server stopped by itself")
	}
	if cerr := server.Close(); err == nil {
		err = cerr
	}
	return err
}
