package ui

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-locks/pawl/cmd/pawl/internal/supervise"
)

type uiOptions struct {
	cli.Reader
	listen      string
	hosts       []string
	allowRemote bool
	allowBreak  bool
}

// defaultListen spells pawl on a telephone.
const defaultListen = "127.0.0.1:7295"

func New() *cobra.Command {
	var o uiOptions
	cmd := &cobra.Command{
		Use:   "ui [PREFIX]",
		Short: "Serve a page that shows locks, elections and queues live",
		Long: `Serves a page that shows the locks, elections and queues of the namespace live, or
those whose names begin with PREFIX, and a timeline of who held what when. Releases,
losses and evictions look different there. It shows the last and the next runs of
schedules, too. It exits with 0 at a signal.

The page has no users and no TLS: anyone who can reach its address sees what these
credentials may read. So it listens on loopback. From elsewhere, use
ssh -L 7295:127.0.0.1:7295 HOST, or a proxy that authenticates the user. Any other
address requires --allow-remote.

It is read-only. With --allow-break the page can evict a holder, as pawl break does,
after a question. That requires the key that is part of the printed address; without
the key the page only shows. A key is valid as long as pawl ui runs. --allow-break is
possible on loopback only.

The timeline begins when pawl ui starts. It is kept in memory, and has at most 10,000
ended holds, and 200 of each name. pawl ui holds no lease, writes nothing except when
it evicts, and reads from the cluster every 5 s while a browser is connected.`,
		Example: `  pawl ui
  pawl ui --listen 127.0.0.1:0 reports/
  pawl ui --allow-break`,
		Args: cli.UpTo(1, "PREFIX"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.check(); err != nil {
				return err
			}
			err := o.With(cmd, func(ctx context.Context, c *pawl.Client) error {
				return o.serve(ctx, cmd, c, cli.PrefixOf(args))
			})
			var sig *supervise.Interrupted
			if errors.As(err, &sig) {
				return nil
			}
			return err
		},
	}
	fs := cmd.Flags()
	o.Connection.Flags(fs)
	fs.StringVar(&o.listen, "listen", defaultListen, "address to serve on; port 0 means a free one")
	fs.StringSliceVar(&o.hosts, "host", nil, "additional host name of the page, for example behind a proxy; can be given several times")
	fs.BoolVar(&o.allowRemote, "allow-remote", false, "serve on an address that other machines can reach")
	fs.BoolVar(&o.allowBreak, "allow-break", false, "let the page evict holders")
	cli.CompletesNames(cmd, &o.Connection)
	return cmd
}

// check refuses an address that others can reach, unless that was allowed.
func (o *uiOptions) check() error {
	host, _, err := net.SplitHostPort(o.listen)
	if err != nil {
		return cli.Usage("--listen is %q, want host:port: %w", o.listen, err)
	}
	ip, err := netip.ParseAddr(host)
	loopback := strings.EqualFold(host, "localhost") || err == nil && ip.Unmap().IsLoopback()
	switch {
	case loopback:
		return nil
	case !o.allowRemote:
		return cli.Usage("--listen %s: other machines can reach that, and the page has no users and no TLS; say --allow-remote if that is meant, or use ssh -L", o.listen)
	case o.allowBreak:
		return cli.Usage("--allow-break and --listen %s: the key to break would go over the network in the clear; serve on loopback, and use ssh -L", o.listen)
	}
	return nil
}

// CloseWithin is how long streams may take to end before they are broken off. Tests of real processes set it.
var CloseWithin = 2 * time.Second

const (
	headersWithin = 10 * time.Second
	idleAtMost    = 2 * time.Minute
)

func (o *uiOptions) serve(ctx context.Context, cmd *cobra.Command, c *pawl.Client, prefix string) error {
	opts := Options{
		Prefix: prefix, Namespace: o.Namespace, Cluster: strings.Join(o.Endpoints, ", "), Hosts: o.hosts, By: cli.Evictor(), Logger: o.Logger(),
	}
	if o.Embed {
		opts.Cluster = "of this process"
	}
	if o.allowBreak {
		opts.Token = rand.Text()
	}
	if name, err := os.Hostname(); err == nil {
		opts.Hosts = append(opts.Hosts, name)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.listen)
	if err != nil {
		return fmt.Errorf("ui: %w (--listen picks another address)", err)
	}
	p, err := Open(ctx, c, opts)
	if err != nil {
		_ = listener.Close()
		return err
	}
	server := &http.Server{
		Handler: p, ReadHeaderTimeout: headersWithin, IdleTimeout: idleAtMost,
		ErrorLog: slog.NewLogLogger(cmp.Or(opts.Logger, slog.New(slog.DiscardHandler)).Handler(), slog.LevelWarn),
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }() // ends with Shutdown, or Close
	o.say(cmd, listener.Addr().String(), opts.Token)
	select {
	case <-ctx.Done():
		err = context.Cause(ctx)
	case err = <-served:
	}
	p.Close() // ends the streams, which Shutdown would wait for
	within, cancel := context.WithTimeout(context.Background(), CloseWithin)
	defer cancel()
	if server.Shutdown(within) != nil {
		_ = server.Close()
	}
	return err
}

// say prints the address, and what it allows others to do.
func (o *uiOptions) say(cmd *cobra.Command, addr, token string) {
	address := "http://" + addr + "/"
	if token != "" {
		address += "#key=" + token
	}
	fmt.Fprintf(cmd.OutOrStdout(), "the page is at %s\n", address)
	if token != "" {
		fmt.Fprintln(cmd.ErrOrStderr(), "pawl: who has this address can evict holders: keep it to yourself")
	}
	if o.allowRemote {
		fmt.Fprintln(cmd.ErrOrStderr(), "pawl: who reaches this address sees all of it, without a password and without TLS")
	}
}
