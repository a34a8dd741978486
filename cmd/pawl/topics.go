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
			Long: `Put what must not run twice behind pawl lock, on every machine:

  pawl lock backup -- ./backup.sh

It waits for its turn; the lock is given back when backup.sh ends, however it ends,
and pawl exits with its code. In cron, where the next run must not queue up behind a
slow one, skip it, and call that success:

  pawl lock -n -E 0 hourly -- ./report.sh

Wait for some time only, and distinguish "not acquired" from the script's own failure:

  pawl lock --wait 30 deploy -- make deploy
  test $? = 124 && echo "somebody else is deploying: pawl show deploy"

Several steps under one lock are one script, or:

  pawl lock deploy -- sh -c './build && ./push && ./restart'

Reading beside others that read, and never while somebody writes; and two things at
once, both or neither:

  pawl lock --shared catalogue -- ./export.sh
  pawl lock account/3 account/7 -- ./transfer.sh

A service that is to run on one machine at a time, and on another when that dies:

  pawl elect scheduler "$(hostname)" -- ./scheduler

When the lock is lost, because the machine was cut off from etcd or somebody broke
it, the command is ended before anybody else can have the lock, and the exit code is
121. What it had half done stays half done: make its steps repeatable, and have the
storage check PAWL_TOKEN (pawl help tokens).

Ask whether it is held, and who leads:

  pawl show -q backup && echo busy
  test "$(pawl show --holder scheduler)" = "$(hostname)" && echo "this machine leads"

Who has it, who waits, what has happened, and what is wrong:

  pawl show backup
  pawl watch
  pawl doctor

A holder that is dead lets go by itself within the TTL, 15 s unless --ttl says
otherwise. One that hangs does not: look at it, end it, or pawl break backup.

To try all this without a cluster, pawl dev starts one on this machine, and pawl demo
shows a lock being lost.`,
		},
		{
			Use:   "tokens",
			Short: "What fencing tokens are for",
			Long: `No lock that can be lost keeps two holders apart alone. A holder can be stopped right
between its last look at the lock and its write: by a full disk, a swapped-out page,
a virtual machine that is moved. When it goes on, the lock is another's, and its
write lands all the same.

So each holder has a number that is greater than that of every holder before it: the
fencing token, in PAWL_TOKEN. Send it along with each write, and have the storage
keep the highest it has seen and refuse whatever is lower. In SQL that is a column
and a condition:

  UPDATE report SET body = :body, token = :token WHERE id = 1 AND token <= :token

and no row changed means: too late, stop. Where readers share the lock, storage keeps
two numbers, and PAWL_MODE says which a token is for. docs/how-to/fencing.md shows it
for databases, HTTP, object stores, files and etcd itself.

The token is the revision at which the holder's key was put in etcd. Revisions only go
up, and the holder's is the lowest of those in the queue: so the next one's is
higher, also after pawl break, a crash, or an expired lease. The exception is a cluster
that was restored from a backup without care: docs/how-to/operations.md says how to do
it.`,
		},
		{
			Use:   "exit-codes",
			Short: "What pawl's exit codes mean",
			Long: cli.ExitHelp + `
  1    pawl doctor, pawl demo: something is not as it should be;
       pawl show -q, --holder: nobody holds it

125 from pawl break means that nobody was evicted: nobody held it, it was another
holder, or the answer was no. pawl observe, watch and top end at a signal with 0.

A command's own code is passed on also where it is one of these.`,
		},
	}
}
