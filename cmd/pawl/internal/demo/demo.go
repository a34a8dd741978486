package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-locks/pawl/cmd/pawl/internal/supervise"
	"github.com/pawl-locks/pawl/fencing"
	"github.com/pawl-locks/pawl/lease"
)

// demoLimit is how long the demo may take. One that takes longer hangs.
const demoLimit = 5 * time.Minute

func New() *cobra.Command {
	return &cobra.Command{
		Use:   "demo",
		Short: "Show in fifteen seconds what pawl does; needs nothing but this program",
		Long: `Starts an etcd server in this process and contenders in processes of their own, and
shows on real locks and a SQLite file that checks fencing tokens:

  1. contenders queue first come, first served, and each does read-modify-writes under
     the lock: no update is lost;
  2. a holder is stopped in the middle of its work for longer than its TTL: the next
     contender takes over, the first check of the stopped holder after it resumes says
     that its lock is lost, and the store refuses its late write;
  3. four workers share out the shards of a name; one is killed, and another one comes:
     what the first one had goes to the others, the last one gets its share, and nothing
     else moves.

The demo checks each of its statements before it prints it. It exits with 0 if all of
them hold, and with 1 if not. It leaves nothing behind.`,
		Example: "  pawl demo",
		Args:    cli.Words(0, "no argument"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := supervise.Catch().Ends(context.Background())
			defer stop()
			return demoEnd(ctx, runDemo(ctx, cmd.OutOrStdout()))
		},
	}
}

// demoEnd adds the exit code to the demo's error. ctx has the signals.
func demoEnd(ctx context.Context, err error) error {
	var sig *supervise.Interrupted
	switch {
	case err == nil:
		return nil
	case errors.As(context.Cause(ctx), &sig):
		return sig
	}
	return cli.Exit(cli.ExitWrong, fmt.Errorf("demo: not as it should be: %w", err))
}

// demo is a demo under way.
type demo struct {
	out    io.Writer
	start  time.Time
	server *cli.Server
	file   string
	store  *store
	client *pawl.Client // of the demo itself
	looker *grpc.ClientConn
	crew   crew
}

// runDemo prepares and runs all parts, says what was shown, and cleans up.
func runDemo(ctx context.Context, out io.Writer) (err error) {
	d := &demo{out: out, start: time.Now()}
	dir, err := os.MkdirTemp("", "pawl-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	ctx, done := context.WithTimeoutCause(ctx, demoLimit, fmt.Errorf("not done within %v", demoLimit))
	defer done()
	defer func() { err = errors.Join(err, d.close()) }()
	if err := d.open(ctx, dir); err != nil {
		return err
	}
	shown := ""
	for _, part := range []func(ctx context.Context) (string, error){d.queue, d.stopped, d.shards} {
		s, err := part(ctx)
		if err != nil {
			return err
		}
		shown += s
	}
	d.print("\nShown, and checked, in %.1f s:\n%s", time.Since(d.start).Seconds(), strings.TrimSuffix(shown, "\n"))
	return nil
}

func (d *demo) open(ctx context.Context, dir string) (err error) {
	d.print("pawl demo: an etcd server in this process, contenders in processes of their own,\nand a SQLite file that refuses a fencing token below the highest it has seen.")
	if d.server, err = cli.StartServer(cli.ServerOptions{Quick: true}); err != nil {
		return err
	}
	d.file = filepath.Join(dir, "store.db")
	if d.store, err = createStore(ctx, d.file); err != nil {
		return err
	}
	if d.looker, err = grpc.NewClient("passthrough:///"+d.server.Endpoint, grpc.WithTransportCredentials(insecure.NewCredentials())); err != nil {
		return err
	}
	d.client, err = pawl.Dial(ctx, pawl.Config{
		Endpoints: []string{d.server.Endpoint}, Session: lease.Options{Owner: "demo"},
	})
	return err
}

// close ends everything that was started.
func (d *demo) close() error {
	d.crew.dismiss()
	var errs []error
	errs = append(errs, d.client.Close())
	if d.looker != nil {
		errs = append(errs, d.looker.Close())
	}
	if d.store != nil {
		errs = append(errs, d.store.db.Close())
	}
	return errors.Join(append(errs, d.server.Close())...)
}

// hire starts a contender for the lock name.
func (d *demo) hire(who, name string, more ...string) (*worker, error) {
	w, err := startWorker(who, append([]string{"--endpoint", d.server.Endpoint, "--file", d.file, "--name", name}, more...)...)
	if err == nil {
		d.crew = append(d.crew, w)
	}
	return w, err
}

// queued waits until n keys queue for the lock name, w's among them. It returns false if w has the lock
// already, as those before it may have lost it, or has ended.
func (d *demo) queued(ctx context.Context, name string, n int64, w *worker) (bool, error) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		got, err := pb.NewKVClient(d.looker).Range(ctx, &pb.RangeRequest{
			Key: []byte(name + "/"), RangeEnd: []byte(name + "0"), CountOnly: true, // '0' is what follows '/'
		})
		switch {
		case ctx.Err() != nil:
			return false, fmt.Errorf("waiting for %d in the queue for %q: %w", n, name, context.Cause(ctx))
		case err != nil:
			return false, err
		case got.Count == n:
			return true, nil
		case len(w.facts) > 0:
			return false, nil
		}
		select {
		case <-w.exited: // w.next says why
			return false, nil
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

func (d *demo) print(format string, args ...any) { _, _ = fmt.Fprintf(d.out, format+"\n", args...) }

// line prints what who did, at a time, with the token if there is one.
func (d *demo) line(at time.Time, who string, t fencing.Token, format string, args ...any) {
	token := ""
	if t != 0 {
		token = fmt.Sprintf("token %d", t)
	}
	d.print("%7.3fs  %-5s  %-9s  %s", at.Sub(d.start).Seconds(), who, token, fmt.Sprintf(format, args...))
}
