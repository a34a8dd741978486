package hold

import (
	"cmp"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pawl-locks/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-locks/pawl/lease"
)

// commonOptions are the options of both lock and elect: how long a lease lasts, the owner's name, and
// how the command is ended.
type commonOptions struct {
	ttl   seconds
	delay seconds
	owner string
	grace seconds
	json  bool
	stall seconds
}

func (o *commonOptions) flags(fs *pflag.FlagSet, c *cli.Connection) {
	fs.StringVar(&c.ReclaimDir, "reclaim-dir", "", "with a COMMAND: leave a file in this directory, so that pawl reap, or the next session there, frees what is held as soon as pawl and COMMAND are dead; a late write of theirs can then come after the next holder's (Linux)")
	fs.Var(&o.ttl, "ttl", "how long the lease outlives its last renewal, 3s to 24h (default 15s)")
	fs.Var(&o.delay, "lock-delay", "how long nobody else gets what is held if it ends without a release; 1.2 times this and the TTL are 24h at most")
	fs.StringVar(&o.owner, "owner", "", "name of the holder, for display (default host:pid)")
	o.grace = noGrace
	fs.Var(&o.grace, "grace", "time between TERM and KILL for the command, at most a sixth of the TTL, which is the default, up to 50s")
	fs.Var(&o.stall, "stall", "with a COMMAND: end it if it has not touched the file that PAWL_PROGRESS names for this long, at least 1s: touch \"$PAWL_PROGRESS\" after each thing done; the exit code is 120")
	fs.BoolVar(&o.json, "json", false, "report what happens as lines of JSON")
}

// noGrace is the value of --grace if it was not given.
const noGrace = seconds(-1)

// mostGrace is the most that --grace is by default. After a sudden loss of the lock, a command may run for
// as long beside the next holder's.
const mostGrace = 50 * time.Second

// session returns o's options for a session. Invalid ones are wrong usage.
func (o *commonOptions) session() (lease.Options, error) {
	opts := lease.Options{TTL: time.Duration(o.ttl), LockDelay: time.Duration(o.delay), Owner: o.owner}
	if err := opts.Check(); err != nil {
		return opts, cli.Exit(cli.ExitUsage, err)
	}
	if most := cmp.Or(opts.TTL, lease.DefaultTTL) / 6; time.Duration(o.grace) > most {
		return opts, cli.Usage("--grace is %v, want at most %v, a sixth of the TTL", time.Duration(o.grace), most)
	}
	return opts, nil
}

// graceOf is the time from TERM to KILL under a lease of ttl as granted.
func (o *commonOptions) graceOf(ttl time.Duration) time.Duration {
	if o.grace == noGrace {
		return min(ttl/6, mostGrace)
	}
	return time.Duration(o.grace)
}

// reporter returns where a command's notices go. stdout belongs to the COMMAND, if there is one.
func (o *commonOptions) reporter(cmd *cobra.Command, command, verbose bool) reporter {
	var w io.Writer
	switch {
	case !command:
		w = cli.OutNotices(cmd)
	case o.json || verbose:
		w = cli.Stderr
	}
	return reporter{w, o.json}
}
