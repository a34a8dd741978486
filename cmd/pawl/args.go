package main

import (
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/spf13/cobra"
)

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

// upTo wants at most n words.
func upTo(n int, names string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > n {
			return usage("%s: %q is one too many after %s", cmd.CommandPath(), args[n], names)
		}
		return nil
	}
}

// checkName finds out that no lock can have that name before anything is asked.
func checkName(name string, etcdLayout bool) error {
	if _, err := keys.NewQueue("", name, etcdLayout); err != nil {
		return usage("NAME: %w", err)
	}
	return nil
}

// oneName wants NAME alone, which may begin with a dash behind "--".
func oneName(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return usage("%s: want NAME", cmd.CommandPath())
	}
	return upTo(1, "NAME")(cmd, args)
}
