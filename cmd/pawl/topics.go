package main

import (
	"github.com/spf13/cobra"

	"github.com/pawl-locks/pawl/cmd/pawl/internal/cli"
)

// topics are the help pages that are not commands.
func topics() []*cobra.Command {
	return []*cobra.Command{
		{
			Use:   "scripts",
			Short: "How to use locks in scripts and runbooks",
			Long: `Run every script that must not run twice at a time under pawl lock, on every machine:

  pawl lock backup -- ./backup.sh

pawl waits for its turn, releases the lock when backup.sh ends, however it ends, and
exits with its code. Put this line into the crontab of all machines, and one of them
runs the job for each hour:

  ETCDCTL_ENDPOINTS=etcd-1:2379,etcd-2:2379,etcd-3:2379
  0 * * * *  pawl lock --once now/1h hourly -- ./report.sh

If only one run at a time is wanted, skip a run while another goes on, and treat that as
success:

  pawl lock -n -E 0 hourly -- ./report.sh

Wait for a limited time, and distinguish "not acquired" from a failure of the script:

  pawl lock --wait 30 deploy -- make deploy
  test $? = 124 && echo "somebody else is deploying: pawl show deploy"

Put several steps under one lock in a script, or:

  pawl lock deploy -- sh -c './build && ./push && ./restart'

Read together with other readers but never while somebody writes; or lock two names at
once, both or neither:

  pawl lock --shared catalogue -- ./export.sh
  pawl lock account/3 account/7 -- ./transfer.sh

Run a service on one machine at a time, and on another when that one dies:

  pawl elect scheduler "$(hostname)" -- ./scheduler

If the lock is lost, because the machine was cut off from etcd or somebody broke the
lock, pawl ends the command before anybody else can acquire the lock, and exits with
121. Steps of the command may then be half done: make them repeatable, and have the
storage check PAWL_TOKEN (pawl help tokens).

Test whether a lock is held, and who leads:

  pawl show -q backup && echo busy
  test "$(pawl show --holder scheduler)" = "$(hostname)" && echo "this machine leads"

See who holds a lock, who waits, what happens, and what is wrong:

  pawl show backup
  pawl watch
  pawl doctor

If a machine dies, its locks are free within the TTL, 15 s unless --ttl says otherwise.
If a holder hangs, the lock stays taken: find out why, end the holder, or use pawl break
backup.

To try all this without a cluster, pawl dev starts one on this machine, and pawl demo
shows a lock being lost.`,
		},
		{
			Use:   "tokens",
			Short: "What fencing tokens are for",
			Long: `If a lock can be lost, the lock alone cannot keep two holders apart. A holder can be
stopped between its last check of the lock and its write: by a full disk, a page that
was swapped out, or a virtual machine that is moved. When it resumes, somebody else
holds the lock, but the write is executed all the same.

So each holder has a number that is greater than that of every holder before it: the
fencing token, in PAWL_TOKEN. Send it along with each write, and have the storage
keep the highest token it has seen and refuse lower ones. In SQL that is a column
and a condition:

  UPDATE report SET body = :body, token = :token WHERE id = 1 AND token <= :token

If no row was changed, the write came too late: stop. If readers share the lock, the
storage keeps two numbers, and PAWL_MODE says which of them a token is for.
https://github.com/pawl-locks/pawl shows this for databases, HTTP, object stores, files
and etcd itself, in docs/how-to/fencing.md.

The token is the revision at which the holder's key was put in etcd. Revisions only
increase, and the holder's is the lowest in the queue. So the next holder's is higher,
also after pawl break, a crash, or an expired lease. The exception is a cluster
that was restored from a backup without care: docs/how-to/operations.md, there too, says
how to do it.`,
		},
		{
			Use:   "exit-codes",
			Short: "What pawl's exit codes mean",
			Long: cli.ExitHelp + `
  1    pawl doctor, pawl demo: a check failed;
       pawl show -q, --holder: nobody holds it

125 from pawl break means that nobody was evicted: nobody held it, somebody else held
it, or the answer was no. pawl observe, watch and top exit with 0 at a signal.

If the command itself exits with one of these codes, pawl passes it on.`,
		},
	}
}
