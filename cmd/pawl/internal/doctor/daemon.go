package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"time"

	"github.com/pawl-locks/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-locks/pawl/cmd/pawl/internal/supervise"
	"github.com/spf13/cobra"
)

// examineDaemon makes the checks of a daemon, and prints their results.
func examineDaemon(o *cli.Reader, cmd *cobra.Command, socket, prefix string) error {
	for _, name := range []string{"endpoints", "user", "password", "cacert", "cert", "key", "namespace", "embed"} {
		if cmd.Flags().Changed(name) {
			return cli.Usage("--%s is for the cluster, and --daemon is given: want one", name)
		}
	}
	if prefix != "" {
		return cli.Usage("%q: a PREFIX is for the cluster, and --daemon is given: want one", prefix)
	}
	p, err := daemonAt(socket, o.DialTimeout)
	if err != nil {
		return err
	}
	ctx, stop := supervise.Catch().Ends(context.Background())
	defer stop()
	d := &doctor{out: cmd.OutOrStdout(), json: o.JSON, counts: map[string]int{}}
	if d.socket(ctx, socket) {
		d.ready(ctx, p)
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return d.sum()
}

// ready checks that the daemon serves this user, and that it can acquire locks.
func (d *doctor) ready(ctx context.Context, p *daemon) {
	began := time.Now()
	status, err := p.health(ctx)
	var refused *refusal
	do, limited := limit(err)
	switch {
	case limited:
		d.wrong("live", "", fmt.Sprintf("a limit is reached: %v", err), do)
		return
	case errors.As(err, &refused):
		d.wrong("live", "", fmt.Sprintf("refuses this user: %v", err), "use it as a user whom pawld can identify: one of this user namespace")
		return
	case err != nil:
		d.wrong("live", "", fmt.Sprintf("does not answer: %v", err), "see its log (journalctl -u pawld), and restart it: what it holds goes to the next one if it has a --state-dir")
		return
	}
	d.ok("live", "", "answers in %s", cli.Span(time.Since(began)))
	if strings.TrimPrefix(status, "SERVING_STATUS_") != "SERVING" {
		d.wrong("ready", "", "cannot acquire locks: etcd does not answer it, or it is stopping",
			"see its log (journalctl -u pawld); pawl doctor, with the --endpoints that pawld has, checks etcd")
		return
	}
	d.ok("ready", "", "can acquire locks")
}

// limit reports whether an error says that a limit of pawld's is reached, and what to do about it. A
// connection beyond the limit is closed at once.
func limit(err error) (do string, reached bool) {
	var r *refusal
	switch {
	case errors.As(err, &r) && r.Code == "resource_exhausted":
		return "end what is not needed, or raise --max-sessions, --max-locks or --max-calls, or locks= and sessions= in the policy", true
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "see its log: if it says that a connection is refused, end connections that are not needed, or raise --max-connections", true
	}
	return "", false
}
