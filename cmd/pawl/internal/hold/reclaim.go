package hold

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-locks/pawl/cmd/pawl/internal/supervise"
	"github.com/pawl-locks/pawl/internal/clock"
	"github.com/pawl-locks/pawl/internal/hooks"
	"github.com/pawl-locks/pawl/internal/session"
)

// reclaim revokes, in the guardian, the lease that a dead holder has left, so that nobody waits until
// it expires. A signal ends it. It says with -v what came of it.
func (o *commonOptions) reclaim(c *cli.Connection, fs *pflag.FlagSet, end supervise.End) {
	if end.Remains.Lease == 0 || c.Embed { // with --embed the holder was the server
		return
	}
	ctx, stop := supervise.Catch().Ends(context.Background())
	defer stop()
	say := func(format string, args ...any) {
		if c.Verbose {
			warn(fmt.Sprintf("the killed process's lease %s "+format, append([]any{cli.LeaseHex(end.Remains.Lease)}, args...)...))
		}
	}
	if o.delay > 0 {
		say("stays for --lock-delay, %v", time.Duration(o.delay))
	}
	err := o.afterDelay(ctx, c.DialTimeout, end.Until, func(ctx context.Context) error {
		return revokeRemains(ctx, c, fs, end.Remains)
	})
	switch {
	case errors.Is(err, session.ErrGone):
		say("is gone already")
	case err != nil:
		say("is left to expire: %v", err)
	default:
		say("is revoked")
	}
}

// checkReclaim reports what excludes --reclaim-dir.
func checkReclaim(c *cli.Connection, argv []string, keeps bool) error {
	switch {
	case c.ReclaimDir == "":
		return nil
	case len(argv) == 0:
		return cli.Usage("--reclaim-dir wants a COMMAND: without one another process uses what is held, whose death proves nothing here")
	case keeps:
		return cli.Usage("--reclaim-dir and --at-least exclude each other")
	case c.Embed:
		return cli.Usage("--reclaim-dir and --embed exclude each other")
	}
	return nil
}

// open connects. What is held stays proved alive for as long as a command lives that this process starts.
func open(ctx context.Context, c *cli.Connection, fs *pflag.FlagSet) (*pawl.Client, func() error, error) {
	client, closed, err := c.Open(ctx, fs)
	if err == nil {
		hooks.Bequeath(client)
	}
	return client, closed, err
}

// afterDelay calls revoke once --lock-delay has passed, with a ctx that ends after within, or when a
// lease with that deadline ends by itself. It returns why it did not, or revoke's error.
func (o *commonOptions) afterDelay(ctx context.Context, within time.Duration, deadline time.Time, revoke func(context.Context) error) error {
	delay := time.Duration(o.delay)
	if !session.AwaitInstant(ctx, clock.Now().Add(delay)) {
		return context.Cause(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, min(within, time.Until(deadline.Add(delay))))
	defer cancel()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return revoke(ctx)
}

// revokeRemains connects as the holder did, and revokes what it has left.
func revokeRemains(ctx context.Context, c *cli.Connection, fs *pflag.FlagSet, left supervise.Remains) (err error) {
	c.ReclaimDir = "" // the guardian leaves nothing
	client, closed, err := c.Open(ctx, fs)
	if err != nil {
		return err
	}
	defer func() { _ = closed() }()
	host, err := hooks.HostOf(client)
	if err != nil {
		return err
	}
	return session.Reclaim(ctx, host, session.Remains(left))
}
