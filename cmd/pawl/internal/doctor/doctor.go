package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-locks/pawl"
	"github.com/pawl-locks/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-locks/pawl/cmd/pawl/internal/supervise"
)

func New() *cobra.Command {
	var o cli.Reader
	var at, reclaims string
	cmd := &cobra.Command{
		Use:   "doctor [PREFIX]",
		Short: "Check the cluster and the keys, or pawld, for what endangers locks",
		Long: `Checks the cluster and the keys that locks depend on, and says for each problem what to
do:

  endpoint    each of --endpoints answers, and is a member that can serve
  version     etcd is 3.5.28, 3.6.9, 3.7.0 or later: older ones have bugs that can
              break locks
  cluster     all endpoints are of one cluster, which has a leader and a quorum; its
              members
  alarm       NOSPACE and CORRUPT alarms; how full the database is
  ttl         the shortest lease that the cluster grants
  clock       this machine's clock, and how fast it is being corrected
  permission  the user may read and write the session keys and the keys under PREFIX
  key         foreign keys under a lock's name, which block it; keys without a lease;
              two kinds of lock with one name, such as a lock and an election, which
              exclude each other
  session     sessions that have stopped renewing; session keys without a lease
  run         records of runs that are ahead of this machine's clock, or hold no time
  reclaim     with --reclaim-dir DIR: whether the deaths of processes can be proved
              there, and files that prove nothing, or whose processes are dead

"key" and "run" check the names that begin with PREFIX, or all. doctor grants a lease
and revokes it, and writes nothing else. It checks the permission to write with a
transaction whose condition is never true.

With --daemon SOCKET it checks the pawld on this machine instead:

  socket      it is there; who may connect
  live        it answers this user
  ready       it can acquire locks

Its refusals, its metrics and its --health say the rest.

"ok" means no problem, "look" a problem unless it is intended, and "wrong" a problem.
The exit code is 1 if something is wrong, 123 if no endpoint answers or too few members
run, and otherwise 0. At 123 the checks that are left are skipped.

With --json each line is an object with check, status, subject, says and do.`,
		Example: `  pawl doctor
  pawl doctor --json | jq -r 'select(.status == "wrong") | .do'
  pawl doctor --endpoints a:2379,b:2379,c:2379 reports/
  pawl doctor --daemon /run/pawl/pawld.sock`,
		Args: cli.UpTo(1, "PREFIX"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("daemon") {
				return examineDaemon(&o, cmd, at, cli.PrefixOf(args))
			}
			return examine(&o, cmd, cli.PrefixOf(args), reclaims)
		},
	}
	o.Flags(cmd, "finding")
	cmd.Flags().StringVar(&at, "daemon", "", "check the pawld that serves this Unix socket")
	cmd.Flags().StringVar(&reclaims, "reclaim-dir", "", "check this directory too, in which sessions leave files for the case of their process's death")
	cli.CompletesNames(cmd, &o.Connection)
	return cmd
}

// A finding is the result of a check.
type finding struct {
	Check   string `json:"check"`
	Status  string `json:"status"`
	Subject string `json:"subject,omitempty"`
	Says    string `json:"says"`
	Do      string `json:"do,omitempty"`

	SubjectBase64 string `json:"subjectBase64,omitempty"` // if JSON cannot represent it as it is
}

// The statuses of findings.
const (
	isOK    = "ok"
	isOdd   = "look"
	isWrong = "wrong"
)

// A doctor prints findings.
type doctor struct {
	out    io.Writer
	json   bool
	counts map[string]int
}

func (d *doctor) find(f finding) {
	d.counts[f.Status]++
	if d.json {
		f.SubjectBase64 = cli.Base64(f.Subject)
		_ = cli.JSONLine(d.out, f) // the exit code shows that it was not written
		return
	}
	line := fmt.Sprintf("%-5s %-10s ", f.Status, f.Check)
	if f.Subject != "" {
		line += cli.Plain(f.Subject) + ": "
	}
	fmt.Fprintln(d.out, line+f.Says)
	if f.Do != "" {
		fmt.Fprintf(d.out, "%17s→ %s\n", "", f.Do)
	}
}

func (d *doctor) ok(check, subject, says string, args ...any) {
	d.find(finding{Check: check, Status: isOK, Subject: subject, Says: fmt.Sprintf(says, args...)})
}

func (d *doctor) odd(check, subject, says, do string) {
	d.find(finding{Check: check, Status: isOdd, Subject: subject, Says: says, Do: do})
}

func (d *doctor) wrong(check, subject, says, do string) {
	d.find(finding{Check: check, Status: isWrong, Subject: subject, Says: says, Do: do})
}

// examine makes all checks, and prints their results.
func examine(o *cli.Reader, cmd *cobra.Command, prefix, reclaims string) error {
	ctx, stop := supervise.Catch().Ends(context.Background())
	defer stop()
	cfg, server, err := o.Target(cmd.Flags())
	if err != nil {
		return err
	}
	defer server.Close()
	d := &doctor{out: cmd.OutOrStdout(), json: o.JSON, counts: map[string]int{}}
	ends := d.endpoints(ctx, cfg, o.DialTimeout)
	d.clock()
	if reclaims != "" {
		d.reclaim(reclaims)
	}
	if answering(ends) == 0 {
		return cli.Exit(cli.ExitNoCluster, fmt.Errorf("none of %s serves: %w", strings.Join(cfg.Endpoints, ", "), ends[0].err))
	}
	d.cluster(ends)
	if lostQuorum(ends) {
		return d.skip(errors.New("too few members of the cluster answer: the other checks are skipped"))
	}
	dialing, cancel := context.WithTimeout(ctx, o.DialTimeout)
	client, err := pawl.Dial(dialing, cfg)
	cancel()
	if err != nil {
		return cli.Reach(err)
	}
	defer client.Close()
	return d.run(ctx, client, max(o.DialTimeout, 12*time.Second),
		func(ctx context.Context, c *pawl.Client) error { return d.members(ctx, c, ends) },
		func(ctx context.Context, c *pawl.Client) error { return d.alarms(ctx, c, ends) },
		d.ttl,
		func(ctx context.Context, c *pawl.Client) error { return d.permissions(ctx, c, o.Namespace, prefix) },
		d.sessions,
		func(ctx context.Context, c *pawl.Client) error { return d.keys(ctx, c, o.Namespace, prefix) },
		func(ctx context.Context, c *pawl.Client) error { return d.runs(ctx, c, prefix) },
	)
}

// run makes checks, each within a time, until one finds that the cluster does not answer.
func (d *doctor) run(ctx context.Context, client *pawl.Client, each time.Duration, checks ...func(context.Context, *pawl.Client) error) error {
	for _, check := range checks {
		within, cancel := context.WithTimeout(ctx, each)
		err := check(within, client)
		cancel()
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		if err == nil {
			continue
		}
		d.wrong("request", "", err.Error(), "the checks that need it were skipped: fix the problems above first")
		if cli.CodeOf(cli.Reach(err)) == cli.ExitNoCluster {
			return d.skip(err)
		}
	}
	return d.sum()
}

// skip ends the checks because the cluster does not answer, which why reports.
func (d *doctor) skip(why error) error {
	_ = d.sum() // its code is another
	return cli.Exit(cli.ExitNoCluster, why)
}

// sum prints the summary.
func (d *doctor) sum() error {
	wrong, odd := d.counts[isWrong], d.counts[isOdd]
	if !d.json {
		fmt.Fprintf(d.out, "\n%d ok, %d to look at, %d wrong\n", d.counts[isOK], odd, wrong)
	}
	if wrong > 0 {
		return cli.Exit(cli.ExitWrong, nil)
	}
	return nil
}
