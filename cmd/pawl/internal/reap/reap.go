// Package reap is pawl reap: it revokes the leases of processes as soon as they are dead.
//
// # What it guarantees
//
//  1. It revokes nothing without proof that the process is dead, and never what another process has taken
//     over (rules RC2 and RC3; see internal/reclaim).
//  2. It goes on while the cluster does not answer, and when a directory is removed and made again.
//  3. Whoever reads its output holds up no reclaim.
//
// # Failures
//
// A directory in which no death can be proved is wrong usage. A file that proves nothing is left, and
// reported once. A lease that cannot be revoked is tried again until it is gone.
package reap

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-locks/pawl/cmd/pawl/internal/supervise"
	"github.com/pawl-locks/pawl/internal/backoff"
	"github.com/pawl-locks/pawl/internal/hooks"
	"github.com/pawl-locks/pawl/internal/reclaim"
	"github.com/pawl-locks/pawl/internal/session"
)

// New makes pawl reap.
func New() *cobra.Command {
	var o cli.Reader
	cmd := &cobra.Command{
		Use:   "reap DIR…",
		Short: "Free what killed processes held, as soon as they are dead",
		Long: `Waits for the death of processes that have left a file in one of the directories, and
revokes their leases at once, so that nobody waits until they expire. It needs one of
them on the same machine, as the same user, with the same flags for the cluster.

READ THIS FIRST. A lease that expires gives writes that the dead process has under way
the rest of the TTL to arrive. A reclaim does not: such a write can arrive after the
next holder's. Storage that checks the fencing token refuses it. For other storage give
the sessions a lock-delay, which counts from the proof of death.

A process is proved dead by a file that is locked for as long as anybody has its memory.
So a process that is stopped is alive, and so is what forked from it. Nothing is revoked
that another process has taken over, or when the file is a copy, or from before a
reboot.

A DIR belongs to this user, has mode 0700, and is on tmpfs, ext4, xfs or btrfs. It is
made if it is not there. If it is removed, pawl reap waits until it is there again.
Several pawl reap for one DIR do no harm. It works on Linux.

It exits with 0 at a signal. Each lease is a line on stdout, what else happens is one on
stderr. With --json each line on stdout is an object with event (watching, reclaimed,
taken over), dir, lease, owner, after (seconds since the proof of death) and time.`,
		Example: `  pawl reap /run/worker/reclaim
  pawl reap --json /run/worker/reclaim | jq -r .lease`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cli.Usage("%s: want a DIR, or several", cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return run(&o, cmd, args) },
	}
	o.Flags(cmd, "lease")
	return cmd
}

func run(o *cli.Reader, cmd *cobra.Command, paths []string) error {
	dirs := make([]*reclaim.Dir, len(paths))
	for i, path := range paths {
		var err error
		if dirs[i], err = reclaim.Open(path); err != nil {
			return cli.Usage("DIR: %w", err)
		}
	}
	err := o.With(cmd, func(ctx context.Context, c *pawl.Client) error {
		host, err := hooks.HostOf(c)
		if err != nil {
			return err
		}
		ctx, stop := context.WithCancelCause(ctx)
		defer stop(nil)
		go func() { // ends with ctx
			select {
			case <-host.Cluster.Ended():
				stop(host.Cluster.Err())
			case <-ctx.Done():
			}
		}()
		out := &reporter{to: cli.OutNotices(cmd), json: o.JSON}
		var all sync.WaitGroup
		for i, d := range dirs {
			all.Go(func() { stay(ctx, d, host, out, paths[i]) })
		}
		all.Wait()
		return context.Cause(ctx)
	})
	var sig *supervise.Interrupted
	if errors.As(err, &sig) {
		return nil
	}
	return err
}

// lookEvery is how often a directory that is gone is looked for.
const lookEvery = time.Second

// stay reclaims in d until ctx ends. When the directory is gone it waits for one that has its path. When the
// system lets nobody watch more directories, it tries again.
func stay(ctx context.Context, d *reclaim.Dir, host session.Host, out *reporter, path string) {
	for said := ""; ; {
		err := out.reclaimer(path, d, host).Run(ctx, func() {
			said = ""
			out.say(event{Event: "watching", Dir: path})
		})
		if ctx.Err() != nil {
			return
		}
		then := "trying again"
		if errors.Is(err, reclaim.ErrGone) {
			then = "waiting until it is there again"
		}
		if text := err.Error(); text != said {
			out.warn("%s: %v: %s", cli.Plain(path), err, then)
			said = text
		}
		for err != nil { // at least once: it may be there, and not be watched for want of a descriptor
			if !backoff.Sleep(ctx, lookEvery) {
				return
			}
			d, err = reclaim.Open(path)
		}
	}
}
