package main

import (
	"github.com/spf13/cobra"
)

// newRoot makes the whole tree of commands.
func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "pawl",
		Short: "Locks and leader election on etcd, told when they are lost",
		Long: `pawl takes locks and leads elections on etcd, and runs commands that may run
only meanwhile: when a lock is lost the command is ended before anybody else
can be granted the lock.

  pawl demo                          see it work; needs nothing
  pawl dev                           an etcd server to try it on
  pawl lock backup -- ./backup.sh    never two at once, on any machine`,
		SilenceErrors:     true,
		SilenceUsage:      true,
		DisableAutoGenTag: true,
		RunE:              func(cmd *cobra.Command, args []string) error { return cmd.Help() },
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage("there is no command %q", args[0])
			}
			return nil
		},
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return exit(exitUsage, err) })
	root.AddCommand(newDev(), newLock(), newElect(), newObserve(), newLs(), newShow(), newWatch(), newTop(), newBreak(), newDoctor(), newDemo(), newDemoWorker())
	return root
}

// words wants n words before the "--", and passes what is behind it.
func words(n int, names string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		before := cmd.ArgsLenAtDash()
		if before < 0 {
			before = len(args)
		}
		switch {
		case before < n:
			return usage("%s: want %s", cmd.CommandPath(), names)
		case before > n:
			return usage("%s: %q is one too many after %s; a command goes behind --", cmd.CommandPath(), args[n], names)
		case cmd.ArgsLenAtDash() >= 0 && len(args) == n:
			return usage("%s: no command behind --", cmd.CommandPath())
		}
		return nil
	}
}
