package cli

import (
	"github.com/pawl-locks/pawl/internal/keys"
	"github.com/spf13/cobra"
)

// Words wants n words before the "--", and passes what follows it.
func Words(n int, names string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		before := len(BeforeDash(cmd, args))
		switch {
		case before < n:
			return Usage("%s: want %s", cmd.CommandPath(), names)
		case before > n:
			return Usage("%s: %q is one too many after %s; a command goes after --", cmd.CommandPath(), args[n], names)
		case cmd.ArgsLenAtDash() >= 0 && len(args) == n:
			return Usage("%s: no command after --", cmd.CommandPath())
		}
		return nil
	}
}

// BeforeDash are the words before the "--", or all where there is none.
func BeforeDash(cmd *cobra.Command, args []string) []string {
	if n := cmd.ArgsLenAtDash(); n >= 0 {
		return args[:n]
	}
	return args
}

// UpTo wants at most n words.
func UpTo(n int, names string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > n {
			return Usage("%s: %q is one too many after %s", cmd.CommandPath(), args[n], names)
		}
		return nil
	}
}

// CheckName refuses a name that no lock can have, before any request.
func CheckName(name string, etcdLayout bool) error {
	if _, err := keys.NewQueue("", name, etcdLayout); err != nil {
		return Usage("NAME: %w", err)
	}
	return nil
}

// OneName wants NAME alone, which may begin with a dash after "--".
func OneName(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return Usage("%s: want NAME", cmd.CommandPath())
	}
	return UpTo(1, "NAME")(cmd, args)
}
